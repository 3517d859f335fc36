#include "quant/scales.h"

#include <algorithm>
#include <cmath>

#include "quant/rows.h"

namespace octet::quant {
namespace {

float power_of_two_scale(float amax, float largest_code) {
  int a = 0, l = 0;
  const float amax_mantissa = std::frexp(amax, &a);
  const float code_mantissa = std::frexp(largest_code, &l);
  return std::ldexp(1.0f, a - l + (amax_mantissa > code_mantissa ? 1 : 0));
}

/// The largest g of 16...31 with 2^e * 16 / g >= amax / largest_code, where 2^e is the smallest power of two
/// that is.
float sixteenths(float amax, float power, float largest_code) {
  const double room = 16.0 * power * largest_code;  // exact, as every product below
  int g = 16;
  while (g < 31 && static_cast<double>(amax) * (g + 1) <= room) ++g;
  return static_cast<float>(g);
}

}  // namespace

Scale group_scale(float amax, float floor, ScaleRule rule, float largest_code) {
  if (amax == 0) return {floor, floor > 0 ? 1 / floor : 0};
  Scale s{amax / largest_code, largest_code / amax};
  if (rule != ScaleRule::nearest) {
    const float power = power_of_two_scale(amax, largest_code);
    const float g = rule == ScaleRule::sixteenths ? sixteenths(amax, power, largest_code) : 16.0f;
    s = {power * (16.0f / g), g / 16.0f / power};
  }
  const float smallest = std::max(floor, kSmallestNormal);
  return s.scale < smallest ? Scale{smallest, 1 / smallest} : s;
}

float scale_floor(float largest, int octaves) {
  if (largest == 0 || octaves == 0) return 0;
  return std::max(std::ldexp(largest, -octaves), kSmallestNormal);
}

}  // namespace octet::quant
