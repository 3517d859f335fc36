// The CPU backend: fused attention in SIMD lanes, one nest a scheme and instruction set.
#pragma once
#include <memory>
#include <string>

#include "base/key_packer.h"
#include "cpu/isa.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::cpu {

/// Why the instruction set's kernel does not take the problem; empty: it does.
std::string refusal(Isa isa, const AttentionDesc& desc);

/// Bytes of args.workspace that attend() needs, aligned to 64: packed K and V of all heads with the constants
/// of keys and key blocks.
std::int64_t workspace_bytes(Isa isa, const AttentionDesc& desc);

/// o and lse of q, k, v given in the scheme's formats. K and V are packed first, in parallel over heads and
/// key blocks; then the query blocks are computed in parallel. Besides the workspace a thread keeps a scratch
/// of its own, a few hundred KiB that live as long as it does.
Status attend(Isa isa, const AttentionDesc& desc, const AttentionArgs& args);

/// The two halves of attend(): packed keys serve any number of calls with the same k, v and workspace.
void pack(Isa isa, const AttentionDesc& desc, const AttentionArgs& args);
void attend_packed(Isa isa, const AttentionDesc& desc, const AttentionArgs& args);

/// pack() a head at a time (base/key_packer.h).
std::unique_ptr<KeyPacker> make_packer(Isa isa, const AttentionDesc& desc, const AttentionArgs& args);

}  // namespace octet::cpu
