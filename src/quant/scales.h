// From a group's absolute maximum to its scale. The same text on the host and on the GPU.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "quant/quantize.h"
#include "quant/rows.h"

namespace octet::quant {

/// real = code * scale; code = round(real * rscale).
struct Scale {
  float scale = 0;
  float rscale = 0;
};

/// A positive number as mantissa * 2^(exponent - 23), the mantissa's 24th bit set, subnormal numbers too.
struct Normalised {
  std::uint32_t mantissa;
  int exponent;
};

OCTET_HD Normalised normalised(float x) {
  constexpr int kLift = 24;  // takes every subnormal number to a normal one, exactly
  const bool is_small = x < kSmallestNormal;
  const std::uint32_t bits = bits_of(is_small ? x * power_of_two(kLift) : x);
  constexpr std::uint32_t kTop = 1u << kF32MantissaBits;
  return {(bits & (kTop - 1)) | kTop,
          static_cast<int>(bits >> kF32MantissaBits) - kF32Bias - (is_small ? kLift : 0)};
}

/// 2^e for e <= 127, 0 where there is no such float.
OCTET_HD float power_of_two_or_zero(int e) {
  constexpr int kSmallest = -149, kSmallestOfNormals = -126;
  if (e >= kSmallestOfNormals) return power_of_two(e);
  return e >= kSmallest ? float_of(1u << (e - kSmallest)) : 0.0f;
}

/// ScaleRule::power_of_two and sixteenths; amax > 0.
OCTET_HD Scale power_scale(float amax, ScaleRule rule, float largest_code) {
  const Normalised a = normalised(amax), code = normalised(largest_code);
  const bool carries = a.mantissa > code.mantissa;
  const float power = power_of_two_or_zero(a.exponent - code.exponent + (carries ? 1 : 0));
  if (rule == ScaleRule::power_of_two) return {power, 1.0f / power};
  // The largest g with 2^e * 16 / g >= amax / largest_code: g times the one mantissa is at most 16 times the
  // other, twice that where it carries. 29 bits.
  const std::uint32_t room = code.mantissa * (carries ? 32u : 16u), most = room / a.mantissa;
  const float g = static_cast<float>(most < 31u ? most : 31u);
  return {power * (16.0f / g), g / 16.0f / power};
}

/// The scale of a group whose largest finite |x| is amax, at least `floor` (0: none).
/// nearest: scale = amax / largest_code and rscale = largest_code / amax, each one correctly rounded f32
/// division; where that scale is below 2^-126 or below the floor, scale is the larger of the two and
/// rscale = 1 / scale.
/// power_of_two: scale = 2^e, the smallest with 2^e >= amax / largest_code and e >= -126, found from
/// mantissas and exponents; rscale = 2^-e.
/// sixteenths: scale = 2^e * 16 / g rounded to f32, the same e and the largest g of 16...31 that it allows;
/// rscale = 2^-e * g / 16. A zero group has scale `floor`, and rscale 0 where that is 0.
OCTET_HD Scale group_scale(float amax, float floor, ScaleRule rule, float largest_code) {
  if (amax == 0) return {floor, floor > 0 ? 1 / floor : 0};
  const Scale s = rule == ScaleRule::nearest ? Scale{amax / largest_code, largest_code / amax}
                                             : power_scale(amax, rule, largest_code);
  const float smallest = floor > kSmallestNormal ? floor : kSmallestNormal;
  return s.scale < smallest ? Scale{smallest, 1 / smallest} : s;
}

/// The floor of scales whose reference (the largest scale of their block or head) is `largest`:
/// largest * 2^-octaves, but at least 2^-126; 0 where largest is 0 or octaves is 0.
OCTET_HD float scale_floor(float largest, int octaves) {
  if (largest == 0 || octaves == 0) return 0;
  const float floor = largest * power_of_two(-octaves);
  return floor > kSmallestNormal ? floor : kSmallestNormal;
}

/// Whether group_scale() of amax may be below the floor that is `octaves` below that of a larger amax. False
/// of most: no scale is whose amax is no more octaves below the larger one, for by every rule the scale of
/// amax times a power of two is as many times that of amax, or the least scale that there is.
OCTET_HD bool may_be_below_floor(float amax, float largest, int octaves) {
  return amax == 0 || amax < largest * power_of_two(-octaves);
}

/// What group_scale() gives with a floor, from what it gives without one.
OCTET_HD Scale at_least(const Scale& s, float floor) { return s.scale < floor ? Scale{floor, 1 / floor} : s; }

}  // namespace octet::quant
