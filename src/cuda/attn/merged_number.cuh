// Numbers that ranges of a row's keys have together (cuda/ranges.h).
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "numerics/contract.h"
#include "numerics/formats.h"

namespace octet::cuda::attn {

/// A number in the format of outputs: f16, bf16 or f32.
__device__ __forceinline__ void put_number(const DeviceTensor& x, std::int64_t at, float number) {
  if (x.dtype == DType::f16)
    static_cast<std::uint16_t*>(x.data)[at] = f16_from_f32(number);
  else if (x.dtype == DType::bf16)
    static_cast<std::uint16_t*>(x.data)[at] = bf16_from_f32(number);
  else
    static_cast<float*>(x.data)[at] = number;
}

/// What LSEs, whose largest is `most`, are measured against: their weights are e^(lse_r - origin).
__device__ __forceinline__ float origin_of(float most) { return most > kMinusInfinity ? most : 0.0f; }

/// Whether the row sees any key, from the sum of all weights: of a row that sees none each is 0, and else the
/// largest is 1. note: not from the largest LSE, for NaN, as all LSEs of a query with NaN are, is never that.
__device__ __forceinline__ bool sees_keys(float mass) { return mass != 0.0f; }

/// What sums of weighted outputs are multiplied by, of weights whose sum is `mass`. Two units off in the last
/// place at most, of 1 and more; a division would call a function.
__device__ __forceinline__ float share_of(float mass) { return __fdividef(1.0f, mass); }

/// The log of the sum of e^lse_r, whose largest is `most`, of e^(lse_r - most) in all `mass`.
__device__ __forceinline__ double merged_lse(float most, float mass) {
  return static_cast<double>(most) + static_cast<double>(logf(mass));
}

}  // namespace octet::cuda::attn
