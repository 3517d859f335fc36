// The arithmetic of the ends of rows in the scheme `integer`, in lanes: 64-bit sums and their scales as
// 31-bit mantissas with exponents. All of it in 32-bit words: a mantissa takes the 31 highest bits and one
// more to round by, and what lies below decides nothing. docs/numerics/integer.md has the formulas.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet::integer {

/// mantissa * 2^exponent.
template <class L>
struct ScaledLanes {
  typename L::I32 mantissa, exponent;
};

/// A number in words, |x| < 2^63: its size, and -1 where it is negative.
template <class L>
struct SignedWords {
  typename L::I32 high, low, sign;
};

template <class L>
OCTET_HD SignedWords<L> words_of(typename L::I64 x) {
  using I32 = typename L::I32;
  const I32 high = L::high_word(x), low = L::low_word(x);
  const I32 sign = L::sra_i32(high, 31);
  // Minus x is ~x + 1, which carries into the upper word where the lower one becomes 0.
  const I32 low_size = L::sub_i32(low ^ sign, sign);
  const I32 carry = L::select_i32(L::equal_i32(low_size, 0), sign, 0);
  return {L::sub_i32(high ^ sign, carry), low_size, sign};
}

/// The upper word of an unsigned number shifted to the left by n, 0 <= n <= 32.
template <class L>
OCTET_HD typename L::I32 upper_word(typename L::I32 high, typename L::I32 low, typename L::I32 n) {
  return L::shl_i32(high, as_unsigned(n)) |
         as_signed(L::srl_u32(as_unsigned(low), as_unsigned(L::sub_i32(32, n))));
}

/// `top` rounded from 32 bits, of which the highest is set, to 31, ties upwards; rounding may carry to 2^31,
/// which is brought back below it. `exponent` is that of a 31-bit mantissa. 0 stays 0.
template <class L>
OCTET_HD ScaledLanes<L> rounded(typename L::I32 top, typename L::I32 exponent) {
  const auto mantissa = L::srl_u32(as_unsigned(top), 1) + (as_unsigned(top) & 1u);
  const auto carry = L::srl_u32(mantissa, 31);
  return {as_signed(L::srl_u32(mantissa, carry)), L::add_i32(exponent, as_signed(carry))};
}

/// An unsigned number in words, below 2^63, with 31 bits, or 0.
template <class L>
OCTET_HD ScaledLanes<L> normalised(typename L::I32 high, typename L::I32 low) {
  const auto short_one = L::equal_i32(high, 0);
  const auto first = L::select_i32(short_one, low, high), second = L::select_i32(short_one, 0, low);
  const auto zeros = as_signed(L::clz_u32(as_unsigned(first)));
  return rounded<L>(upper_word<L>(first, second, zeros),
                    L::sub_i32(L::select_i32(short_one, 1, 33), zeros));  // drops 33 bits less the zeros
}

/// A finite f32 >= 0, exactly: 32 bits, the highest of them set, or 0.
template <class L>
OCTET_HD ScaledLanes<L> split_lanes(typename L::F32 x) {
  const auto bits = as_unsigned(L::bits(x));
  const auto biased = as_signed(L::srl_u32(bits, kF32MantissaBits));
  const auto fraction = as_signed(bits & 0x7fffffu);
  const auto mantissa = L::select_i32(L::equal_i32(biased, 0), fraction, fraction | 0x800000);
  const auto zeros = as_signed(L::clz_u32(as_unsigned(mantissa)));
  return {L::shl_i32(mantissa, as_unsigned(zeros)),
          L::sub_i32(L::sub_i32(L::max_i32(biased, 1), 150), zeros)};
}

/// The product with a factor of 32 bits, again with 31 bits, or 0.
template <class L>
OCTET_HD ScaledLanes<L> product(const ScaledLanes<L>& x, const ScaledLanes<L>& factor) {
  const auto x32 = L::shl_i32(x.mantissa, 1);
  const auto high = as_signed(L::mulhi_u32(as_unsigned(x32), as_unsigned(factor.mantissa)));
  const auto low = L::mul_i32(x32, factor.mantissa);
  const auto up = as_signed(L::srl_u32(~as_unsigned(high), 31));  // of 32 by 32 bits: 64, or 1 less
  const auto exponent = L::add_i32(x.exponent, factor.exponent);
  return rounded<L>(upper_word<L>(high, low, up), L::sub_i32(L::add_i32(exponent, 32), up));
}

/// x * 2^-n rounded to nearest, ties upwards, for x < 2^30 and n >= 1.
template <class L>
OCTET_HD typename L::I32 shift_round_lanes(typename L::U32 x, typename L::I32 n) {
  const auto half = as_unsigned(L::shl_i32(1, as_unsigned(L::sub_i32(n, 1))));
  return as_signed(L::srl_u32(x + half, as_unsigned(n)));
}

}  // namespace octet::integer
