// The CPU backend's packed keys across calls.
#pragma once
#include <memory>

#include "base/kv_store.h"
#include "cpu/isa.h"

namespace octet::cpu {

/// Room for desc.tokens_k keys of each batch entry, taken from the system as it fills. k and v: the layouts
/// of the two in the scheme's formats, without data; their scales belong to tokens, to the head, or to the
/// tensor. Throws std::bad_alloc.
std::unique_ptr<KvStore> make_store(Isa isa, const AttentionDesc& desc, const QuantizedTensor& k,
                                    const QuantizedTensor& v);

}  // namespace octet::cpu
