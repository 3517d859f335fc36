// The reference backend: blocked scalar attention for every scheme, and exact float64 attention. Takes every
// problem.
#pragma once
#include <string>

#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::ref {

/// Empty: the reference refuses nothing that core accepts.
std::string refusal(const AttentionDesc& desc);

/// o and lse of q, k, v given in the scheme's formats (core/schemes.h: qk and v). Threads over sequence x
/// head x query block through args.parallel_for; memory O(key_block * (dim + block_m)) a thread. An empty row
/// gives zero and lse -inf.
Status attend(const AttentionDesc& desc, const AttentionArgs& args);

/// A bound on |o - exact|, per element, f32 [batch, heads_q, tokens_q, head_dim_v]:
/// docs/numerics/error-bounds.md. `plain` holds the call's inputs as numbers (f32, f16, bf16), `quantised`
/// the same operands in the scheme's formats.
Status error_bound(const AttentionDesc& desc, const AttentionArgs& plain, const AttentionArgs& quantised,
                   const TensorView& bound);

}  // namespace octet::ref
