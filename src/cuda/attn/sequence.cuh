// Which tokens a block of threads works on.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"

namespace octet::cuda::attn {

/// One sequence of one operand.
struct Sequence {
  std::int32_t index, batch, begin, length;
};

__device__ __forceinline__ Sequence sequence_at(const DeviceSequences& all, std::int32_t index) {
  if (!all.cu_seqlens) return {index, index, 0, all.tokens};
  const std::int32_t begin = all.cu_seqlens[index];
  return {index, 0, begin, all.cu_seqlens[index + 1] - begin};
}

/// A sequence's first group of `size` rows, where groups of sequences are numbered one after the other with
/// room for a part of one in each.
__device__ __forceinline__ std::int32_t first_group_bound(const DeviceSequences& all, std::int32_t index,
                                                          const Divider& size) {
  if (!all.cu_seqlens) return index * all.groups;
  return all.cu_seqlens[index] * all.rows_a_token / size + index;
}

/// The sequence of group number `group` so counted, by bisection; the group may lie behind the sequence's
/// end.
__device__ __forceinline__ std::int32_t sequence_of_group(const DeviceSequences& all, std::int32_t group,
                                                          const Divider& size) {
  if (!all.cu_seqlens) return group / all.groups;
  std::int32_t low = 0, high = all.count - 1;
#pragma unroll 1
  while (low < high) {
    const std::int32_t middle = (low + high + 1) / 2;
    if (first_group_bound(all, middle, size) <= group)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Index along the axis of scale groups of a sequence's first one (base/sequences.h).
__device__ __forceinline__ std::int64_t first_scale_group(const DeviceSequences& all, std::int32_t index,
                                                          const Divider& tokens_per_scale) {
  if (!all.cu_seqlens) return 0;
  if (tokens_per_scale == 0) return index;
  if (tokens_per_scale == 1) return all.cu_seqlens[index];
  std::int64_t groups = 0;
#pragma unroll 1
  for (std::int32_t s = 0; s < index; ++s)
    groups += (all.cu_seqlens[s + 1] - all.cu_seqlens[s] + tokens_per_scale - 1) / tokens_per_scale;
  return groups;
}

}  // namespace octet::cuda::attn
