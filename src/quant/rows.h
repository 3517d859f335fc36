// Rows of a strided tensor as contiguous floats, and small helpers on float bits.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "octet/types.hpp"

namespace octet::quant {

inline constexpr std::uint32_t kAbsMask = 0x7fffffffu;
inline constexpr std::uint32_t kInfBits = 0x7f800000u;
inline constexpr float kSmallestNormal = 0x1p-126f;

OCTET_HD bool is_finite(float x) { return (bits_of(x) & kAbsMask) < kInfBits; }

/// Bytes of an element of what is quantised: f32, f16 or bf16.
OCTET_HD std::int64_t bytes_of_number(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

/// Element offset of (batch, head, token, 0). An axis of stride 0 is shared; so is one of extent 1.
OCTET_HD std::int64_t row_offset(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t) {
  return b * x.stride[0] + h * x.stride[1] + t * x.stride[2];
}

/// row[c] = x(b, h, t, c) for every channel of x, which is f32, f16, bf16 or f64 (rounded to f32).
void load_row(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t, float* row);

/// The largest finite |row[c]|, 0 where there is none.
float largest_finite(const float* row, std::int64_t channels);

}  // namespace octet::quant
