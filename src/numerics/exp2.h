// 2^x and log2(x) by polynomials, and 2^x by a linear mantissa. All use correctly rounded operations only (+
// - * / and exact work on bits), so every host and every device gives the same bits; no branch. F32 is one
// float or a vector lane of them, each of which gets the same bits.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet {

/// What exp2 returns 0 below: the smallest normal result is 2^-126, and gradual underflow is not worth a
/// branch.
inline constexpr float kExp2Least = -126.0f;
/// From here on the result is Inf.
inline constexpr float kExp2Most = 128.0f;

/// Coefficients of f, f^2, ... f^6 of 2^f for f in [-1/2, 1/2]: scripts/fit_exp2.py, Remez with the constant
/// term held at 1.
inline constexpr float kExp2Term1 = 6.931471825e-01f, kExp2Term2 = 2.402259409e-01f,
                       kExp2Term3 = 5.550366268e-02f, kExp2Term4 = 9.625445120e-03f,
                       kExp2Term5 = 1.338792732e-03f, kExp2Term6 = 1.333242544e-04f;

/// 2^x for any x. Relative error at most 1.01e-7 on [-126, 128); exact at integers; 0 below -126 (and at
/// -Inf); Inf from 128; NaN gives NaN. Never above 1 for x <= 0. Monotone for |x| >= 1/2; nearer to 0, where
/// arguments are denser than results, it may fall by one unit in the last place (f q is rounded before 1 is
/// added).
template <class F32>
OCTET_HD constexpr F32 exp2_poly(F32 x) {
  using T = LaneTraits<F32>;
  constexpr float kMagic =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer and leaves that in the low bits
  const F32 t = T::min(T::max(x, kExp2Least), kExp2Most);
  const F32 shifted = t + kMagic;
  const F32 f = t - (shifted - kMagic);  // in [-1/2, 1/2], exact
  F32 q = kExp2Term6 * f + kExp2Term5;
  q = q * f + kExp2Term4;
  q = q * f + kExp2Term3;
  q = q * f + kExp2Term2;
  q = q * f + kExp2Term1;
  const F32 p = 1.0f + f * q;  // in [0.707, 1.415]
  // Times 2^n, by adding n to the exponent field: at n = -126 f >= 0, so p >= 1 stays normal; at n = 128 f <=
  // 0, so p < 1 stays finite, or p = 1 becomes Inf exactly.
  const F32 scaled = float_of(bits_of(p) + (bits_of(shifted) << kF32MantissaBits));
  const F32 flushed = T::select(x < kExp2Least, 0.0f, scaled);
  return T::select(x != x, x, flushed);
}

/// log2(x) for any x > 0, subnormals included. The error is at most 1.2e-7 * max(1, |log2 x|), and exactly 0
/// at powers of two; monotone. 0 gives -Inf, Inf gives Inf, a negative x or NaN gives NaN. x = 2^e m with m
/// in [sqrt(1/2), sqrt(2)); log2(m) = s r(s^2) with s = (m - 1) / (m + 1), which is odd in log m and so needs
/// half the terms of a series in m - 1. Coefficients: scripts/fit_exp2.py.
template <class F32>
OCTET_HD constexpr F32 log2_poly(F32 x) {
  using T = LaneTraits<F32>;
  constexpr std::uint32_t kSqrtHalf = 0x3f3504f3u;
  constexpr float kTwo24 = 16777216.0f;  // makes any subnormal normal, exactly
  const auto subnormal = x < power_of_two(-126);
  const auto u = bits_of(T::select(subnormal, x * kTwo24, x));
  const auto e = as_signed(u - kSqrtHalf) >> kF32MantissaBits;
  const F32 m = float_of(u - (as_unsigned(e) << kF32MantissaBits));
  const F32 s = (m - 1.0f) / (m + 1.0f);
  const F32 z = s * s;
  F32 r = 4.800990224e-01f * z + 5.745982528e-01f;
  r = r * z + 9.618218541e-01f;
  r = r * z + 2.885390043e+00f;
  const F32 finite = T::to_f32(T::select(subnormal, e - 24, e)) + s * r;
  const F32 at_zero = T::select(x == 0.0f, float_of(kF32Sign | kF32Inf), finite);
  const F32 at_inf = T::select(x < float_of(kF32Inf), at_zero, x);     // Inf and NaN give themselves
  return T::select(x < 0.0f, float_of(kF32Inf | (1u << 22)), at_inf);  // a quiet NaN
}

/// The shift exponential: 2^floor(x) (1 + frac(x)), the chord of 2^x between integers. Always high: by 0 at
/// integers, by 6.15 % at most (frac(x) = 1/ln 2 - 1 = 0.4427). x is rounded to a multiple of 2^-23 first,
/// ties to even; then x 2^23 is the difference of the result's bits from 1's, mantissa and exponent at once,
/// and nothing else is rounded. Monotone. Limits as for exp2_poly: 0 below -126, Inf from 128, NaN gives NaN.
/// Source: Schraudolph, A fast, compact approximation of the exponential function (1999), without his
/// error-centring bias.
template <class F32>
OCTET_HD constexpr F32 exp2_linear(F32 x) {
  using T = LaneTraits<F32>;
  // NaN becomes the bound, so that the conversion below is defined.
  const F32 t = T::min(T::max(x, kExp2Least), kExp2Most);
  const auto steps = T::nearest(t * 8388608.0f);  // |.| <= 2^30, exact above |x| = 1
  const F32 chord = float_of(bits_of(1.0f) + as_unsigned(steps));
  const F32 flushed = T::select(x < kExp2Least, 0.0f, chord);
  return T::select(x != x, x, flushed);
}

/// 2^x of a weight of P: exp2_poly, or what lane L has of its own, within kLaneExp2Error.
template <class L>
OCTET_HD constexpr typename L::F32 weight_exp2(typename L::F32 x) {
  if constexpr (requires { L::exp2(x); })
    return L::exp2(x);
  else
    return exp2_poly(x);
}
inline constexpr double kLaneExp2Error = 0x1p-22;
/// Of exp2_poly's polynomial with fused multiply-adds, which round less often; relatively, as that is.
inline constexpr double kFusedExp2Error = 1.01e-7;
static_assert(kFusedExp2Error <= kLaneExp2Error);

/// A weight of the size `unit` at distance 0. A lane with an exponential of its own has the unit in the
/// distance, whose origin weight_origin() has moved: one multiplication a weight less.
template <class L>
OCTET_HD constexpr typename L::F32 weight_of_unit(typename L::F32 distance, float unit) {
  if constexpr (requires { L::exp2(distance); })
    return L::exp2(distance);
  else
    return unit * exp2_poly(distance);
}
template <class L>
OCTET_HD constexpr typename L::F32 weight_origin(typename L::F32 origin, float log2_unit) {
  if constexpr (requires { L::exp2(origin); })
    return origin - log2_unit;
  else
    return origin;
}

}  // namespace octet
