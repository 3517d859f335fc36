// The driver's part that packed keys from elsewhere than the workspace need too.
#pragma once
#include "call/problem.h"
#include "cpu/packed.h"

namespace octet::cpu {

/// Bytes of memory.states that attend_packed() needs: the states of ranges of keys, where a problem's are
/// cut.
std::int64_t states_bytes(const Nest& nest, const AttentionDesc& desc, std::int64_t dim_v);

/// Where a call's packed K and V are, and room for states_bytes(), aligned to 64.
struct CallMemory {
  std::byte *packed, *states;
};

/// o and lse of the problem's q against packed K and V. Of the problem's k and v only the scales and the
/// number of channels are read.
void attend_packed(const Nest& nest, const call::Problem& problem, const PackedCall& packed,
                   const CallMemory& memory);

/// More than the channels of any operand's codes: rotation pads a head dim to a multiple of its Hadamard
/// block.
std::int64_t most_code_dim(const AttentionDesc& desc);

}  // namespace octet::cpu
