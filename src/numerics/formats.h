// Small number formats: f16, bf16, e4m3, e5m2 and s4, to and from f32. All conversions round to nearest, ties
// to even.
//
// Overflow: f16 and bf16 follow IEEE 754 (Inf); the 8-bit floats saturate finite values at their largest one,
// since a single Inf in P or V would destroy a whole output row. e4m3 has no Inf, so Inf saturates too; e5m2
// keeps Inf. NaN stays NaN with its sign, its payload is replaced. No function is slower for subnormals or
// depends on flush-to-zero modes of the host: where a step needs small numbers it works on bits or on sums of
// normal floats. Source: IEEE 754-2019 (f16); OCP 8-bit Floating Point Specification (OFP8) 1.0, tables 1 and
// 2 (e4m3, e5m2).
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet {

/// A binary format below f32: explicit mantissa bits, smallest normal exponent, bias, largest finite value.
template <int kMantissa, int kExponentMin>
struct SmallFloat {
  static constexpr int kShift = kF32MantissaBits - kMantissa;      // f32 mantissa bits that are dropped
  static constexpr int kRebias = kF32Bias + kExponentMin - 1;      // f32 exponent field minus ours
  static constexpr float kMinNormal = power_of_two(kExponentMin);  // subnormals are below
  // Its last place is the step of our subnormals, so adding it to one leaves the code in the low bits.
  static constexpr float kSubnormalMagic = power_of_two(kExponentMin + kShift);

  /// a rounded to the format's grid without an upper limit, for 0 <= a < 2^(127 - kShift). Adding a power of
  /// two whose last place is the format's step at a's exponent lets the adder round; the exponent is held up
  /// for subnormals.
  template <class F32>
  static OCTET_HD constexpr F32 round(F32 a) {
    // As a float an exponent field is the power of two below a: the larger of two is that of the larger
    // float.
    const F32 power = float_of(bits_of(a) & kF32Inf);
    const F32 at_least = LaneTraits<F32>::max(power, kMinNormal);
    const F32 magic = float_of(bits_of(at_least) + (std::uint32_t{kShift} << kF32MantissaBits));
    return (a + magic) - magic;
  }

  /// The code (without sign) of a value that is on the grid already.
  template <class F32>
  static OCTET_HD constexpr auto code(F32 a) {
    const auto normal = (bits_of(a) >> kShift) - (std::uint32_t{kRebias} << kMantissa);
    const auto subnormal = bits_of(a + kSubnormalMagic) - bits_of(kSubnormalMagic);
    return LaneTraits<F32>::select(a < kMinNormal, subnormal, normal);
  }

  /// The value of a code without sign, Inf and NaN not considered. A subnormal code m is (kMinNormal + m
  /// steps) - kMinNormal.
  template <class U32>
  static OCTET_HD constexpr auto value(U32 code) {
    const auto normal = float_of((code << kShift) + (std::uint32_t{kRebias} << kF32MantissaBits));
    const auto subnormal = float_of((code << kShift) + bits_of(kMinNormal)) - kMinNormal;
    return LaneTraits<U32>::select(code < (1u << kMantissa), subnormal, normal);
  }
};

using F16Grid = SmallFloat<10, -14>;
using E4M3Grid = SmallFloat<3, -6>;
using E5M2Grid = SmallFloat<2, -14>;

inline constexpr float kF16Max = 65504.0f;
inline constexpr float kE4M3Max = 448.0f;
inline constexpr float kE5M2Max = 57344.0f;
inline constexpr std::uint32_t kF32QuietNan = 0x7fc00000u;

OCTET_HD constexpr bool is_nan(float x) { return x != x; }

/// x rounded to f16 and back: what a 16-bit store would keep. Inf from 65520 on.
template <class F32>
OCTET_HD constexpr F32 round_to_f16(F32 x) {
  using T = LaneTraits<F32>;
  // 65536 is the first power of two that overflows
  const F32 r = F16Grid::round(T::min(magnitude(x), 65536.0f));
  const F32 finite_or_inf = T::select(r > kF16Max, float_of(kF32Inf), r);
  return T::select(x != x, x, with_sign_of(finite_or_inf, x));
}

/// A weight of P as f16. Lanes whose kernels round numbers where they pack them say so, and get it as it is.
template <class L>
OCTET_HD constexpr typename L::F32 weight_f16(typename L::F32 x) {
  if constexpr (requires { L::kPacksHalves; })
    return x;
  else
    return round_to_f16(x);
}

/// x rounded to bf16 and back. The exponent range is f32's, so rounding is an integer addition that carries
/// to Inf.
template <class F32>
OCTET_HD constexpr F32 round_to_bf16(F32 x) {
  const auto u = bits_of(x);
  const auto rounded = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
  return LaneTraits<F32>::select(x != x, x, float_of(rounded));
}

/// A weight of P as bf16, likewise.
template <class L>
OCTET_HD constexpr typename L::F32 weight_bf16(typename L::F32 x) {
  if constexpr (requires { L::kPacksHalves; })
    return x;
  else
    return round_to_bf16(x);
}

/// x rounded to e4m3 and back; saturates at 448, Inf included.
template <class F32>
OCTET_HD constexpr F32 round_to_e4m3(F32 x) {
  using T = LaneTraits<F32>;
  const F32 r = E4M3Grid::round(T::min(magnitude(x), kE4M3Max));
  return T::select(x != x, x, with_sign_of(r, x));
}

/// A weight of P as e4m3: round_to_e4m3(), by what lane L has of its own.
template <class L>
OCTET_HD constexpr typename L::F32 nearest_e4m3(typename L::F32 x) {
  if constexpr (requires { L::nearest_e4m3(x); })
    return L::nearest_e4m3(x);
  else
    return round_to_e4m3(x);
}

/// x rounded to e5m2 and back; finite values saturate at 57344, Inf stays.
template <class F32>
OCTET_HD constexpr F32 round_to_e5m2(F32 x) {
  using T = LaneTraits<F32>;
  const F32 a = magnitude(x);
  const F32 r = E5M2Grid::round(T::min(a, kE5M2Max));
  return T::select(a < float_of(kF32Inf), with_sign_of(r, x), x);  // else Inf or NaN
}

/// Code and sign of x in f16 or e5m2, whose exponents are the same; rounded: x on the format's grid, or Inf.
template <class Grid, class F32>
OCTET_HD constexpr auto code_with_inf(F32 x, F32 rounded, int code_bits, std::uint32_t nan) {
  using T = LaneTraits<F32>;
  const auto sign = (bits_of(x) & kF32Sign) >> (32 - code_bits);
  const auto size = Grid::code(T::min(magnitude(rounded), 65536.0f));  // 65536 has the code of Inf
  return sign | T::select(x != x, nan, size);
}

/// The 16 bits of x as f16, of one number or a lane each.
template <class F32>
OCTET_HD constexpr auto f16_code_from_f32(F32 x) {
  return code_with_inf<F16Grid>(x, round_to_f16(x), 16, 0x7e00u);
}

OCTET_HD constexpr std::uint16_t f16_from_f32(float x) {
  return static_cast<std::uint16_t>(f16_code_from_f32(x));
}

/// code: the 16 bits of an f16, in one number or a lane each.
template <class U32>
OCTET_HD constexpr auto f32_from_f16_code(U32 code) {
  const U32 size = code & 0x7fffu;
  const auto special =
      float_of((size << F16Grid::kShift) | kF32Inf);  // exponent all ones: Inf and NaN keep theirs
  const auto value = LaneTraits<U32>::select(size < 0x7c00u, F16Grid::value(size), special);
  return float_of(bits_of(value) | ((code & 0x8000u) << 16));
}

OCTET_HD constexpr float f32_from_f16(std::uint16_t code) { return f32_from_f16_code(std::uint32_t{code}); }

/// A NaN as formats hold it: quiet, with its sign.
template <class F32>
OCTET_HD constexpr auto plain_nan_bits(F32 x) {
  return (bits_of(x) & kF32Sign) | kF32QuietNan;
}

/// x as bf16 in the upper 16 bits, above bits that say nothing; of one number or a lane each.
template <class F32>
OCTET_HD constexpr auto bf16_above(F32 x) {
  const auto u = bits_of(x);
  return LaneTraits<F32>::select(x != x, plain_nan_bits(x), u + 0x7fffu + ((u >> 16) & 1u));
}
/// The 16 bits of x as bf16, likewise.
template <class F32>
OCTET_HD constexpr auto bf16_code_from_f32(F32 x) {
  return bf16_above(x) >> 16;
}

OCTET_HD constexpr std::uint16_t bf16_from_f32(float x) {
  return static_cast<std::uint16_t>(bf16_code_from_f32(x));
}

OCTET_HD constexpr float f32_from_bf16(std::uint16_t code) {
  return float_of(static_cast<std::uint32_t>(code) << 16);
}

/// e4m3 in its OCP form: no Inf, NaN is 0x7f and 0xff, largest value 448 (0x7e).
template <class F32>
OCTET_HD constexpr auto e4m3_code_from_f32(F32 x) {
  const auto sign = (bits_of(x) & kF32Sign) >> 24;
  return sign | LaneTraits<F32>::select(x != x, 0x7fu, E4M3Grid::code(magnitude(round_to_e4m3(x))));
}

OCTET_HD constexpr std::uint8_t e4m3_from_f32(float x) {
  return static_cast<std::uint8_t>(e4m3_code_from_f32(x));
}

OCTET_HD constexpr float f32_from_e4m3(std::uint8_t code) {
  const std::uint32_t size = code & 0x7fu;
  const float value = size == 0x7fu ? float_of(kF32QuietNan) : E4M3Grid::value(size);
  return float_of(bits_of(value) | (static_cast<std::uint32_t>(code & 0x80u) << 24));
}

/// e5m2 as IEEE 754 would have it: Inf is 0x7c, NaN 0x7d...0x7f (0x7e is written), largest finite value 57344
/// (0x7b).
template <class F32>
OCTET_HD constexpr auto e5m2_code_from_f32(F32 x) {
  return code_with_inf<E5M2Grid>(x, round_to_e5m2(x), 8, 0x7eu);
}

OCTET_HD constexpr std::uint8_t e5m2_from_f32(float x) {
  return static_cast<std::uint8_t>(e5m2_code_from_f32(x));
}

/// e5m2 is the upper byte of f16.
OCTET_HD constexpr float f32_from_e5m2(std::uint8_t code) {
  return f32_from_f16(static_cast<std::uint16_t>(static_cast<std::uint32_t>(code) << 8));
}

/// Two s4 codes in one byte, low nibble first. Each is -7...7 (symmetric, so that a scale's sign means
/// nothing).
OCTET_HD constexpr std::uint8_t s4_pack(std::int8_t low, std::int8_t high) {
  return static_cast<std::uint8_t>((static_cast<std::uint32_t>(low) & 0xfu) |
                                   ((static_cast<std::uint32_t>(high) & 0xfu) << 4));
}

/// The sign is bit 3 of the nibble: flipping it and subtracting 8 extends it without a shift of a negative
/// number.
OCTET_HD constexpr std::int8_t s4_low(std::uint8_t pair) {
  return static_cast<std::int8_t>(static_cast<std::int32_t>((pair & 0xfu) ^ 8u) - 8);
}
OCTET_HD constexpr std::int8_t s4_high(std::uint8_t pair) {
  return s4_low(static_cast<std::uint8_t>(pair >> 4));
}

}  // namespace octet
