// cuda/ptx/convert.cuh on the host.
#pragma once
#include <cmath>
#include <cstdint>

#include "numerics/formats.h"

namespace octet::cuda::ptx {

inline float number_of_f16(std::uint32_t code) { return f32_from_f16(static_cast<std::uint16_t>(code)); }
inline std::uint32_t f16_code(float x) { return f16_from_f32(x); }

inline std::uint32_t e4m3_of(float a, float b, float c, float d) {
  return std::uint32_t{e4m3_from_f32(a)} | std::uint32_t{e4m3_from_f32(b)} << 8 |
         std::uint32_t{e4m3_from_f32(c)} << 16 | std::uint32_t{e4m3_from_f32(d)} << 24;
}

inline float larger_or_nan(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return float_of(kF32QuietNan);
  return std::fmax(std::fabs(a), std::fabs(b));
}

inline std::uint32_t s8_codes(float x, float y, float z, float w) {
  const auto code = [](float number) {
    const float nearest =
        std::isnan(number) ? 0.0f : std::fmin(std::fmax(std::rint(number), -128.0f), 127.0f);
    return std::uint32_t{static_cast<std::uint8_t>(static_cast<std::int8_t>(nearest))};
  };
  return code(x) | code(y) << 8 | code(z) << 16 | code(w) << 24;
}

}  // namespace octet::cuda::ptx
