// Floats as bits, and the two roundings that every scheme needs, so that host and device agree to the bit.
#pragma once
#include <cstdint>

#include "base/hd.h"

namespace octet {

/// What goes with a float: the integers beside it, and what C++ has no operator for. Specialised here for one
/// float and in lanes/vector.h for vectors of them, so that the functions below and those of numerics/ that
/// are templates of F32 take either. I32 and U32 name the same traits.
template <class T>
struct LaneTraits;

template <>
struct LaneTraits<float> {
  using F32 = float;
  using I32 = std::int32_t;
  using U32 = std::uint32_t;

  // __builtin_bit_cast rather than std::bit_cast: nvcc takes a constexpr library function in device code only
  // with an option.
  static OCTET_HD constexpr U32 bits_of(F32 x) { return __builtin_bit_cast(U32, x); }
  static OCTET_HD constexpr F32 float_of(U32 x) { return __builtin_bit_cast(F32, x); }
  static OCTET_HD constexpr I32 as_signed(U32 x) { return __builtin_bit_cast(I32, x); }
  static OCTET_HD constexpr U32 as_unsigned(I32 x) { return __builtin_bit_cast(U32, x); }

  static OCTET_HD constexpr F32 min(F32 a, F32 b) { return a < b ? a : b; }  // b where unordered
  static OCTET_HD constexpr F32 max(F32 a, F32 b) { return a > b ? a : b; }  // b where unordered
  static OCTET_HD constexpr F32 select(bool m, F32 yes, F32 no) { return m ? yes : no; }
  static OCTET_HD constexpr I32 select(bool m, I32 yes, I32 no) { return m ? yes : no; }
  static OCTET_HD constexpr U32 select(bool m, U32 yes, U32 no) { return m ? yes : no; }

  static OCTET_HD constexpr F32 to_f32(I32 x) { return static_cast<F32>(x); }
  static OCTET_HD constexpr I32 truncated(F32 x) { return static_cast<I32>(x); }  // |x| < 2^31
  static OCTET_HD constexpr I32 nearest(F32 x);                                   // ties to even, |x| < 2^31
};
template <>
struct LaneTraits<std::int32_t> : LaneTraits<float> {};
template <>
struct LaneTraits<std::uint32_t> : LaneTraits<float> {};

template <class F32>
OCTET_HD constexpr typename LaneTraits<F32>::U32 bits_of(F32 x) {
  return LaneTraits<F32>::bits_of(x);
}
template <class U32>
OCTET_HD constexpr typename LaneTraits<U32>::F32 float_of(U32 bits) {
  return LaneTraits<U32>::float_of(bits);
}

/// Unsigned to signed and back without the implementation-defined corner of older compilers: two's
/// complement, mod 2^32.
template <class U32>
OCTET_HD constexpr typename LaneTraits<U32>::I32 as_signed(U32 x) {
  return LaneTraits<U32>::as_signed(x);
}
template <class I32>
OCTET_HD constexpr typename LaneTraits<I32>::U32 as_unsigned(I32 x) {
  return LaneTraits<I32>::as_unsigned(x);
}

inline constexpr std::uint32_t kF32Sign = 0x80000000u;
inline constexpr std::uint32_t kF32Inf = 0x7f800000u;
inline constexpr int kF32MantissaBits = 23;
inline constexpr int kF32Bias = 127;

/// 2^e as a float, for -126 <= e <= 127.
template <class I32>
OCTET_HD constexpr typename LaneTraits<I32>::F32 power_of_two(I32 e) {
  return float_of(as_unsigned(e + kF32Bias) << kF32MantissaBits);
}

template <class F32>
OCTET_HD constexpr F32 magnitude(F32 x) {
  return float_of(bits_of(x) & ~kF32Sign);
}

/// `size` (its sign bit clear) with the sign bit of `sign`.
template <class F32>
OCTET_HD constexpr F32 with_sign_of(F32 size, F32 sign) {
  return float_of(bits_of(size) | (bits_of(sign) & kF32Sign));
}

/// x rounded to an integer, ties to even, for every float (NaN and Inf pass, the sign of zero is kept):
/// rintf's result in the default rounding mode. Adding 2^23 makes the adder round at the units place; written
/// so because rintf is a library call where the baseline instruction set has no rounding instruction, and a
/// call stops vectorisation.
template <class F32>
OCTET_HD constexpr F32 round_to_integer(F32 x) {
  constexpr float kTwo23 = 8388608.0f;  // from here on every float is an integer
  const F32 a = magnitude(x);
  const F32 rounded = (a + kTwo23) - kTwo23;
  return LaneTraits<F32>::select(a < kTwo23, with_sign_of(rounded, x), x);
}

OCTET_HD constexpr std::int32_t LaneTraits<float>::nearest(F32 x) {
  return static_cast<I32>(round_to_integer(x));
}

}  // namespace octet
