// The conversions and comparisons that GPUs have instructions for, with the results of numerics/formats.h; of
// a NaN only that it is one.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// code: the 16 bits of an f16.
__device__ inline float number_of_f16(std::uint32_t code) {
  float x;
  asm("{ .reg .f16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(x) : "h"(static_cast<std::uint16_t>(code)));
  return x;
}

__device__ inline std::uint32_t f16_code(float x) {
  std::uint16_t code;
  asm("{ .reg .f16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }" : "=h"(code) : "f"(x));
  return code;
}

/// max(|a|, |b|), NaN where one is.
__device__ inline float larger_or_nan(float a, float b) {
  float most;
  asm("{ .reg .f32 x, y; abs.f32 x, %1; abs.f32 y, %2; max.NaN.f32 %0, x, y; }"
      : "=f"(most)
      : "f"(a), "f"(b));
  return most;
}

}  // namespace octet::cuda::ptx
