// ShiftExp2, the integer exponential of QFlash, exactly as published: with its failures, which papers of ours
// must be able to show. Our own integer exponential is a different one. Source: QFlash, equations (5) to (8),
// (15), (16) and algorithm 2.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet {

/// The constants of one tensor-wide score scale D: a score x means 2^(D x).
struct ShiftExp2Constants {
  std::int32_t one = 0;         ///< R0 = round(1 / D): the integer that stands for 1.0; at least 1
  std::int32_t multiplier = 0;  ///< M_e = round(-D 2^16), so that -x / R0 ~ (x M_e) >> 16; 0 where D < 2^-17
};

/// a >> s with the sign filled in from 32 on. The amount is unsigned, as on NVIDIA's GPUs (PTX shr): a
/// negative quotient is a huge amount. The published kernel relies on this for far and for masked keys.
template <class I32>
OCTET_HD constexpr I32 shift_right_clamped(I32 a, I32 s) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
  I32 shifted;  // one instruction there
  asm("shr.s32 %0, %1, %2;" : "=r"(shifted) : "r"(a), "r"(s));
  return shifted;
#else
  return a >> LaneTraits<I32>::select(as_unsigned(s) < 32u, s, 31);
#endif
}

/// (7) and (8): with r = x + q R0, the line 1 + r/2 in units of 1/R0, halved q times. q and r are not
/// checked, as published: a wrong quotient gives r outside (-R0, 0] and a value that may be negative. All
/// arithmetic wraps modulo 2^32.
template <class I32>
OCTET_HD constexpr I32 shift_exp2_from_quotient(I32 x, I32 quotient, std::int32_t one) {
  const auto r = as_unsigned(x) + as_unsigned(quotient) * as_unsigned(one);
  const auto line = as_unsigned(as_signed(r) >> 1) + as_unsigned(one);
  return shift_right_clamped(as_signed(line), quotient);
}

/// E(x) ~ R0 2^(x / R0) for x <= 0, with the quotient of (16): q = (x M_e) >> 16, the product taken modulo
/// 2^32. x: s32 score minus the row's maximum. Result: s32 in units of 1/R0; E(0) = R0.
template <class I32>
OCTET_HD constexpr I32 shift_exp2_multiply(I32 x, const ShiftExp2Constants& c) {
  const auto product = as_unsigned(x) * as_unsigned(c.multiplier);
  return shift_exp2_from_quotient(x, as_signed(product) >> 16, c.one);
}

/// The same with the quotient of (15), q = floor(-x / R0): exact, and an integer division for each score.
/// x <= 0 and R0 >= 1; the negation is done in unsigned arithmetic, so that even -2^31 is defined.
template <class I32>
OCTET_HD constexpr I32 shift_exp2_divide(I32 x, const ShiftExp2Constants& c) {
  const auto quotient = (0u - as_unsigned(x)) / as_unsigned(c.one);
  return shift_exp2_from_quotient(x, as_signed(quotient), c.one);
}

}  // namespace octet
