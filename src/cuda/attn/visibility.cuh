// Which keys a query sees, and what a bias adds to their scores.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/attn/operand.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/tile/kept.cuh"

namespace octet::cuda::attn {

/// A half-open range of keys.
struct KeyRange {
  std::int32_t begin, end;
};

/// Keys that query i of m may see among n by causality and window, aligned bottom-right.
__device__ __forceinline__ KeyRange visible_range(const Call& call, std::int32_t i, std::int32_t m,
                                                  std::int32_t n) {
  const std::int32_t at = i + n - m;
  KeyRange range{0, n};
  if (call.mask == Mask::causal) range.end = min(range.end, at + 1);
  if (call.window_right >= 0) range.end = min(range.end, at + call.window_right + 1);
  if (call.window_left >= 0) range.begin = max(range.begin, at - call.window_left);
  range.begin = min(max(range.begin, 0), n);
  range.end = min(max(range.end, range.begin), n);
  return range;
}

/// Key blocks that the tokens of a sequence see, or those of them in a range: numbers begin ... end - 1.
struct BlockRange {
  std::int32_t begin, end;
  __device__ __forceinline__ bool has(std::int32_t i) const { return begin <= i && i < end; }
};

/// Key blocks that some of m queries see among n keys.
__device__ __forceinline__ BlockRange visible_blocks(const Call& call, std::int32_t m, std::int32_t n) {
  if (m == 0) return {0, 0};
  const KeyRange first = visible_range(call, 0, m, n), last = visible_range(call, m - 1, m, n);
  return {first.begin / call.key_block, (last.end + call.key_block - 1) / call.key_block};
}

/// Key blocks of a range that is not the last of those that `seen` is cut into.
__device__ __forceinline__ std::int32_t blocks_a_range(const Call& call, const BlockRange& seen) {
  const std::int32_t most = call.ranges.most;
  return max(call.ranges.least_blocks, (max(seen.end - seen.begin, 1) + most - 1) / call.ranges.most);
}
/// Range number i; behind the last one none.
__device__ __forceinline__ BlockRange range_of(const Call& call, const BlockRange& seen, std::int32_t i) {
  const std::int32_t each = blocks_a_range(call, seen), begin = seen.begin + i * each;
  return {begin, min(begin + each, seen.end)};
}

/// The same of the queries and keys of one sequence.
struct Visibility {
  const Call& call;
  std::int32_t queries, keys;
  /// Whether neither causality nor a window hides a key of any query. note: asked of the call where it is
  /// needed; a flag would stand through the loop of key blocks.
  __device__ __forceinline__ bool of_all() const { return tile::kept(call.hides_keys) == 0; }
  __device__ __forceinline__ KeyRange of(std::int32_t token) const {
    return token < queries ? visible_range(call, token, queries, keys) : KeyRange{0, 0};
  }
};

/// What calls are known to have in which neither mask nor window hides a key.
struct SeesAll {
  static constexpr bool of_all() { return true; }
};
/// The bias of calls that have none.
struct NoBias {};

/// Bias or mask of one (batch entry, head).
class HeadBias {
 public:
  __device__ HeadBias(const Call& call, std::int32_t batch, std::int32_t head)
      : call_(call), batch_(batch), head_(head) {}

  /// note: as above; a known flag would also have a copy of the loop.
  __device__ bool any() const {
    return tile::kept(static_cast<std::int32_t>(call_.bias_kind)) !=
           static_cast<std::int32_t>(AttentionDesc::Bias::none);
  }
  /// -inf hides the key.
  __device__ float at(std::int32_t query, std::int32_t key) const {
    const DeviceTensor& bias = call_.bias;
    const std::int64_t offset =
        bias.along(0, batch_) + bias.along(1, head_) + bias.along(2, query) + bias.along(3, key);
    if (call_.bias_kind == AttentionDesc::Bias::additive) {
      if (bias.dtype == DType::f32) return static_cast<const float*>(bias.data)[offset];
      const std::uint16_t code = static_cast<const std::uint16_t*>(bias.data)[offset];
      return bias.dtype == DType::f16 ? ptx::number_of_f16(code) : f32_from_bf16(code);
    }
    return static_cast<const std::uint8_t*>(bias.data)[offset] ? 0.0f : kMinusInfinity;
  }

 private:
  const Call& call_;
  std::int32_t batch_, head_;
};

}  // namespace octet::cuda::attn
