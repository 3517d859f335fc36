// cuda/ptx/convert.cuh on the host.
#pragma once
#include <cmath>
#include <cstdint>

#include "numerics/formats.h"

namespace octet::cuda::ptx {

inline float number_of_f16(std::uint32_t code) { return f32_from_f16(static_cast<std::uint16_t>(code)); }
inline std::uint32_t f16_code(float x) { return f16_from_f32(x); }

inline std::uint32_t f16_pair(float low, float high) {
  return std::uint32_t{f16_from_f32(low)} | std::uint32_t{f16_from_f32(high)} << 16;
}
inline std::uint32_t bf16_pair(float low, float high) {
  return std::uint32_t{bf16_from_f32(low)} | std::uint32_t{bf16_from_f32(high)} << 16;
}
inline std::uint32_t f16_pair_of_bf16(std::uint32_t pair) {
  return f16_pair(float_of(pair << 16), float_of(pair & 0xffff0000u));
}
template <int kLeast, int kMost>
std::uint32_t byte_pair(std::int32_t low, std::int32_t high, std::uint32_t above) {
  const auto byte = [](std::int32_t x) {
    return std::uint32_t{static_cast<std::uint8_t>(std::min(std::max(x, kLeast), kMost))};
  };
  return byte(low) | byte(high) << 8 | above << 16;
}
inline std::uint32_t u8_pair(std::int32_t low, std::int32_t high, std::uint32_t above) {
  return byte_pair<0, 255>(low, high, above);
}
inline std::uint32_t s8_pair(std::int32_t low, std::int32_t high, std::uint32_t above) {
  return byte_pair<-128, 127>(low, high, above);
}

inline std::uint32_t e4m3_of(float a, float b, float c, float d) {
  return std::uint32_t{e4m3_from_f32(a)} | std::uint32_t{e4m3_from_f32(b)} << 8 |
         std::uint32_t{e4m3_from_f32(c)} << 16 | std::uint32_t{e4m3_from_f32(d)} << 24;
}

inline float sum_of_e4m3(std::uint32_t word) {
  const auto number = [&](int i) { return f32_from_e4m3(static_cast<std::uint8_t>(word >> 8 * i)); };
  return (number(0) + number(2)) + (number(1) + number(3));
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
