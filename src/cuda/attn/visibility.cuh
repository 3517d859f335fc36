// Which keys a query sees, and what a bias adds to their scores.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/attn/operand.cuh"

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

/// The same of the queries and keys of one sequence.
struct Visibility {
  const Call& call;
  std::int32_t queries, keys;
  /// Whether neither causality nor a window hides a key of any query.
  __device__ __forceinline__ bool of_all() const {
    return call.mask == Mask::none && call.window_left < 0 && call.window_right < 0;
  }
  __device__ __forceinline__ KeyRange of(std::int32_t token) const {
    return token < queries ? visible_range(call, token, queries, keys) : KeyRange{0, 0};
  }
};

/// Bias or mask of one (batch entry, head).
class HeadBias {
 public:
  __device__ HeadBias(const DeviceBias& bias, std::int32_t batch, std::int32_t head)
      : bias_(bias), base_(batch * bias.tensor.stride[0] + head * bias.tensor.stride[1]) {}

  __device__ bool any() const { return bias_.kind != AttentionDesc::Bias::none; }
  /// -inf hides the key.
  __device__ float at(std::int32_t query, std::int32_t key) const {
    const std::int64_t offset = base_ + query * bias_.tensor.stride[2] + key * bias_.tensor.stride[3];
    if (bias_.kind == AttentionDesc::Bias::additive)
      return number_at(bias_.tensor.data, bias_.tensor.dtype, offset);
    return static_cast<const std::uint8_t*>(bias_.tensor.data)[offset] ? 0.0f : kMinusInfinity;
  }

 private:
  const DeviceBias& bias_;
  std::int64_t base_;
};

}  // namespace octet::cuda::attn
