// i-exp, I-BERT's integer exponential by a second-order polynomial, which FQ-ViT uses too.
//
// note: as published, the integers are held in floating point: they need up to 70 bits at small scales. Here
// they are doubles, in the published order, so every one below 2^53 is exact. Source: I-BERT, Algorithm 2, in
// the form of its code: exp(r) ~ a r^2 + b r + 1 on (-ln 2, 0].
#pragma once
#include <cstdint>

#include "base/hd.h"

namespace octet {

/// floor(x) without the library; from 2^51 on x itself.
OCTET_HD constexpr double floor_of(double x) {
  constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52: rounds to nearest
  constexpr double kTwo51 = 2251799813685248.0;
  const double nearest = (x + kMagic) - kMagic;
  const double floor = nearest > x ? nearest - 1 : nearest;
  return x < kTwo51 && x > -kTwo51 ? floor : x;
}

/// 2^n as a double, -1022 <= n <= 1023.
OCTET_HD constexpr double exact_power_of_two(int n) {
  return __builtin_bit_cast(double, static_cast<std::uint64_t>(n + 1023) << 52);
}

/// Constants for scores of one scale.
struct IExp {
  static constexpr double kA = 0.35815147, kB = 0.96963238;
  static constexpr double kLn2 = 0.6931;  // as published
  static constexpr int kOctaves = 30;     ///< n: arguments below -n ln 2 are held there

  double ln2 = -1;      ///< x0 = floor(-0.6931 / s), at most -1
  double linear = 0;    ///< floor(b / (a s))
  double constant = 0;  ///< floor(1 / (a s^2))

  /// scale: the real value of one score unit. A tensor of zeros has 0; all its scores are equal, so any scale
  /// will do. Above 1.67 exp(0) would be 0 as published; it is held at 1, and scores are one-hot there.
  static OCTET_HD constexpr IExp of(double scale) {
    constexpr double kLeast = 1e-30;
    const double s = scale > kLeast ? scale : kLeast;
    const double x0 = floor_of(-kLn2 / s);
    const double one = floor_of(1 / kA / (s * s));
    return {x0 < -1 ? x0 : -1, floor_of(kB / kA / s), one > 1 ? one : 1};
  }

  /// exp(x s) in units of a s^2 2^-n, never negative. x: score minus the row's largest, an integer <= 0.
  OCTET_HD constexpr double operator()(double x) const {
    const double held = x > kOctaves * ln2 ? x : kOctaves * ln2;
    const double q = floor_of(held / ln2);
    const double r = held - q * ln2;
    const double poly = r * (r + linear) + constant;
    const double e = poly * exact_power_of_two(kOctaves - static_cast<int>(q));  // q <= 30: still an integer
    return e > 0 ? e : 0;
  }
};

}  // namespace octet
