// A row whose keys were cut in ranges (cuda/ranges.h), merged: o = sum of o_r e^(lse_r - lse), where lse is
// the log of the sum of e^lse_r. A range of which the row sees no key has an LSE of minus infinity.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "numerics/contract.h"
#include "numerics/formats.h"

namespace octet::cuda::attn {

/// What ranges' outputs weigh.
struct RangeWeights {
  float most;  ///< the largest LSE
  bool sees;   ///< whether the row sees any key
  float mass = 0;

  __device__ __forceinline__ explicit RangeWeights(float largest_lse)
      : most(largest_lse), sees(largest_lse > kMinusInfinity) {}
  __device__ __forceinline__ float of(float lse) const { return expf(lse - (sees ? most : 0.0f)); }
  /// What sums of weighted outputs are multiplied by. Two units off in the last place at most, of masses of 1
  /// and more; a division would call a function.
  __device__ __forceinline__ float share() const { return sees ? __fdividef(1.0f, mass) : 0.0f; }
};

/// Where one goes: row number `row` of the heads that the launch has as one, of a batch entry.
class MergedRow {
 public:
  __device__ __forceinline__ MergedRow(const Call& call, std::int32_t batch, std::int32_t head,
                                       std::int32_t row)
      : call_(call), batch_(batch) {
    token_ = row / call.queries.rows_a_token;
    head_ = head * call.queries.rows_a_token + row - token_ * call.queries.rows_a_token;
  }
  __device__ __forceinline__ std::int32_t token() const { return token_; }

  /// sum: of weighted outputs. 0 for a row that sees no key, whatever its ranges had.
  __device__ __forceinline__ void put(std::int32_t channel, float sum, const RangeWeights& weights,
                                      float share) const {
    const DeviceTensor& o = call_.o;
    const std::int64_t at = offset(o) + o.along(3, channel);
    const float number = weights.sees ? sum * share : 0.0f;
    if (o.dtype == DType::f16)
      static_cast<std::uint16_t*>(o.data)[at] = f16_from_f32(number);
    else if (o.dtype == DType::bf16)
      static_cast<std::uint16_t*>(o.data)[at] = bf16_from_f32(number);
    else
      static_cast<float*>(o.data)[at] = number;
  }
  /// Where one is asked for; what smoothing K took away comes back.
  __device__ __forceinline__ void put_lse(const RangeWeights& weights) const {
    if (!call_.lse.data) return;
    double total = kMinusInfinity;
    if (weights.sees) {
      total = static_cast<double>(weights.most) + static_cast<double>(logf(weights.mass));
      if (call_.q_anchor.data)
        total += static_cast<const float*>(call_.q_anchor.data)[offset(call_.q_anchor)];
    }
    static_cast<float*>(call_.lse.data)[offset(call_.lse)] = static_cast<float>(total);
  }

 private:
  __device__ __forceinline__ std::int64_t offset(const DeviceTensor& x) const {
    return x.along(0, batch_) + x.along(1, head_) + x.along(2, token_);
  }

  const Call& call_;
  std::int32_t batch_, head_, token_;
};

}  // namespace octet::cuda::attn
