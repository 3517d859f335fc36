// What the scheme `integer` takes from V's scales along tokens: P carries a key's scale as a distance, and
// the row's sum as a multiplier. Both are exact where scales lie on a grid of sixteenths of an octave, linear
// within each. Specification: docs/numerics/integer.md.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "numerics/formats.h"
#include "numerics/integer_arith.h"
#include "numerics/integer_quotient.h"

namespace octet::integer {

inline constexpr std::int32_t kUnitBits = 10;  // z in 2^-10 octave: 64 octaves in 16 bits, 0.07 % a unit
inline constexpr std::int32_t kVUnit = 16;     // V's scale is 2^e * 16 / multiplier
inline constexpr std::int32_t kVOctaves = 8;   // below the block's largest scale
inline constexpr std::int32_t kVLargest = 31 << kVOctaves;
inline constexpr std::int32_t kZeroBlock = -200;  // V's exponent in a block of zeros: below every other one

/// log2(multiplier / 16), 2^-10 octave.
OCTET_HD constexpr std::int64_t distance_of(std::int64_t multiplier) {
  return shift_round(log2_q24(multiplier) - (std::int64_t{4} << 24), 24 - kUnitBits);
}

/// Whether Key::of() represents a scale exactly: 2^e * 16 / g with g in 16...31, or 0.
OCTET_HD bool on_grid(float v_scale) {
  constexpr float kLargest = 0x1.fffffep127f;
  if (!(v_scale >= 0 && v_scale <= kLargest)) return false;
  const Scaled v = split(v_scale);
  if (v.mantissa == 0) return true;
  for (std::int32_t g = kVUnit; g < 2 * kVUnit; ++g) {
    const Scaled s = split(static_cast<float>(kVUnit) / static_cast<float>(g));
    if (s.mantissa == v.mantissa) return true;
  }
  return false;
}

template <class L>
struct Key {
  using F32 = typename L::F32;
  using I32 = typename L::I32;

  I32 distance;    ///< log2 of multiplier / 16, 2^-10 octave: P carries V's scale
  I32 multiplier;  ///< 2^v_exponent * 16 / V's scale, 16...7936: the row sum does not

  /// v_scales: on the grid, up to eight octaves below the block's largest, which is at most 2^v_exponent.
  static OCTET_HD Key of(F32 v_scales, std::int32_t v_exponent) {
    if constexpr (L::kWidth > 1) {
      const OnGrid grid = on_grid_of(v_scales, v_exponent);
      if (grid.all) return grid.keys;
    }
    Key keys{};
    for (int lane = 0; lane < L::kWidth; ++lane) {
      const One one = one_of(L::get(v_scales, lane), v_exponent);
      L::put_i32(keys.distance, lane, one.distance);
      L::put_i32(keys.multiplier, lane, one.multiplier);
    }
    return keys;
  }

 private:
  struct One {
    std::int32_t distance, multiplier;
  };
  static OCTET_HD One one_of(float v_scale, std::int32_t v_exponent) {
    if (v_exponent == kZeroBlock) return {0, kVUnit};
    const Scaled v = split(v_scale);
    const std::int32_t up = v_exponent + 4 - v.exponent;  // multiplier = 2^up / mantissa
    std::int64_t multiplier = kVLargest;
    if (v.mantissa != 0 && up < 40) {
      // note: below 0 or below kVUnit only for scales of a caller's own that are no numbers, or above
      // v_largest.
      multiplier = up < 0 ? kVUnit : quotient((std::int64_t{1} << up) + v.mantissa / 2, v.mantissa);
      if (multiplier < kVUnit) multiplier = kVUnit;
    }
    if (multiplier > kVLargest) multiplier = kVLargest;
    return {static_cast<std::int32_t>(distance_of(multiplier)), static_cast<std::int32_t>(multiplier)};
  }

  /// distance_of() of 16...31.
  struct Distances {
    float of[kVUnit];
    constexpr Distances() : of{} {
      for (int i = 0; i < kVUnit; ++i) of[i] = static_cast<float>(distance_of(kVUnit + i));
    }
  };
  /// What one_of() makes of all lanes, if all their scales are on the grid.
  struct OnGrid {
    Key keys;
    bool all;
  };
  /// A scale 2^e * 16 / g has the mantissa m of 32 / g, but for g = 16, whose mantissa is 1: 32 / m, rounded,
  /// is g or 32. Its multiplier is g << k, k = v_exponent - e.
  static OCTET_HD OnGrid on_grid_of(F32 v_scales, std::int32_t v_exponent) {
    constexpr std::int32_t kMost = kVLargest >> kVOctaves;
    constexpr std::int32_t kOne = kF32Bias << kF32MantissaBits;
    constexpr Distances kDistances;
    const I32 bits = L::bits(v_scales);
    const I32 biased = L::sra_i32(bits, kF32MantissaBits);
    const I32 mantissa = L::add_i32(bits & ((1 << kF32MantissaBits) - 1), kOne);
    const I32 near = L::nearest_i32(L::div(32.0f, L::from_bits(mantissa)));
    const auto is_power = L::equal_i32(near, 32), is_zero = L::equal_i32(bits, 0);
    const auto is_known =
        L::equal_i32(L::bits(L::div(32.0f, L::to_f32(near))), L::select_i32(is_power, kOne, mantissa));
    const auto is_normal = L::less_i32(0, biased) & L::less_i32(biased, 255);
    const I32 fits = L::select_i32((is_known & is_normal) | is_zero, 0, 1);

    const I32 exponent = L::sub_i32(biased, L::select_i32(is_power, kF32Bias, kF32Bias - 1));
    const I32 up = L::select_i32(is_zero, kVOctaves + 1, L::sub_i32(v_exponent, exponent));
    const auto above = L::less_i32(up, 0), below = L::less_i32(kVOctaves, up);
    const I32 octaves = L::max_i32(L::min_i32(up, kVOctaves), 0);
    const I32 sixteenths = L::select_i32(below, kMost, L::select_i32(above | is_power, kVUnit, near));
    const I32 fraction = L::nearest_i32(L::gather(kDistances.of, L::sub_i32(sixteenths, kVUnit)));
    OnGrid grid;
    grid.all = L::largest_lane_i32(fits) == 0;
    grid.keys = {L::add_i32(fraction, L::shl_i32(octaves, kUnitBits)),
                 L::shl_i32(sixteenths, as_unsigned(octaves))};
    // A block of zeros has no largest scale to count from.
    if (v_exponent == kZeroBlock)
      grid.keys = {L::nearest_i32(L::broadcast(0)), L::nearest_i32(L::broadcast(kVUnit))};
    return grid;
  }
};

}  // namespace octet::integer
