// Codes of a row of the scheme `integer` from 31 bits of each output, where these decide them; the exact way,
// five times as long, is in integer_ends.h. One number at a time, in words. docs/numerics/integer.md has the
// bound.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "numerics/integer_arith.h"
#include "numerics/integer_bins.h"
#include "numerics/integer_ends.h"
#include "numerics/integer_quotient.h"

namespace octet::integer {

/// Of what an output's sum is: its bins' total, or a window of the two highest (integer_window.h), whose unit
/// is the lower one's and whose total is within half of the higher one's.
enum class SumsOf : std::int32_t { total, window };

/// near_reciprocal_of_sum() of a row's sum, and the exponent of that as a mantissa of 31 bits.
template <class L>
struct NearReciprocal {
  std::uint32_t reciprocal;
  std::int32_t exponent;

  /// total: above 0.
  static OCTET_HD NearReciprocal of(std::int64_t total) {
    constexpr std::int32_t kMantissaBits = 31;
    const std::int32_t high = L::high_word(total), low = L::low_word(total);
    const bool is_short = high == 0;
    const std::int32_t first = is_short ? low : high, zeros = as_signed(L::clz_u32(as_unsigned(first)));
    const std::int32_t sum = upper_word<L>(first, is_short ? 0 : low, zeros);
    return {near_reciprocal_of_sum<L>(as_unsigned(sum)), (is_short ? 32 : 64) - zeros - kMantissaBits};
  }
};

template <class L>
struct QuickEnds {
  static_assert(L::kWidth == 1, "the numbers of one output");
  using I32 = std::int32_t;
  using U32 = std::uint32_t;

  /// What a row's outputs share once their largest is known.
  struct Row {
    I32 up;          ///< brings the largest to 30 bits
    U32 reciprocal;  ///< of the row's sum: near_reciprocal_of_sum()
    I32 shift;       ///< from the upper word of their product to codes
    U32 half, margin, fraction;
    I32 scale_exponent;
    bool sure;  ///< whether the largest has bits enough

    /// What code() needs of it, each word through `from`.
    template <class From>
    OCTET_HD Row passed(const From& from) const {
      return {from(up), from(reciprocal), from(shift), from(half), from(margin), from(fraction), 0, false};
    }
  };

  /// A channel's constant with 31 bits at the largest channel's exponent, rounded down.
  static OCTET_HD I32 factor(const ScaledLanes<L>& channel, I32 largest_exponent) {
    return as_signed(L::srl_u32(as_unsigned(channel.mantissa),
                                as_unsigned(L::sub_i32(largest_exponent, channel.exponent)) + 1));
  }
  /// A channel of zeros has no exponent.
  static OCTET_HD I32 exponent(const ScaledLanes<L>& channel) {
    constexpr I32 kNone = -(1 << 20);
    return channel.mantissa == 0 ? kNone : channel.exponent;
  }

  /// Bits of the sums' upper words in size, to be joined by or.
  static OCTET_HD U32 size(std::int64_t sum) {
    const I32 high = L::high_word(sum);
    return as_unsigned(high ^ (high >> 31));
  }
  /// How far a row's sums go down, so that 31 bits and their sign are left: 2...32, for sums below 2^62.
  static OCTET_HD U32 down(U32 sizes) { return 34 - L::clz_u32(sizes); }

  /// A sum times its channel's constant, off by less than 2 from 2^-(down + largest_exponent + 33) of that.
  static OCTET_HD I32 output(std::int64_t sum, U32 down, I32 factor) {
    return L::mulhi_i32(L::low_word_down(sum, down), factor);
  }

  /// In which units an output's sum is.
  struct Unit {
    I32 octave;      ///< above the row sum's unit
    I32 error_bits;  ///< the sum is within 2^so many units of the total of the output's bins; 0: that itself
  };
  static OCTET_HD Unit unit(I32 tops, SumsOf sums) {
    return sums == SumsOf::window ? Unit{kBinOctaves * (tops - 1), kBinOctaves - 1}
                                  : Unit{kBinOctaves * tops, 0};
  }

  /// largest: output() of the row in size. total: the row sum, above 0. tops: how many bins the highest of
  /// the outputs lies above that of the sum.
  static OCTET_HD Row row(U32 largest, std::int64_t total, I32 tops, U32 down, I32 largest_exponent,
                          SumsOf sums) {
    return row(largest, total, down, largest_exponent, unit(tops, sums));
  }
  static OCTET_HD Row row(U32 largest, std::int64_t total, U32 down, I32 largest_exponent, const Unit& unit) {
    constexpr I32 kMostUp = 8;  // of 30 bits at least 22 are an output's
    constexpr I32 kCodeBits = 7;
    constexpr I32 kLeastBelow = 9;  // bits that an error lies below a unit of outputs times 2^14, at least
    constexpr U32 kWord = 32;
    Row r{};
    r.up = as_signed(L::clz_u32(largest)) - 2;
    const bool is_total = unit.error_bits == 0;
    if (r.up > kMostUp || down > kWord || (!is_total && as_signed(down) < unit.error_bits - kLeastBelow))
      return r;
    const auto sum = NearReciprocal<L>::of(total);
    r.reciprocal = sum.reciprocal;
    const U32 product = L::mulhi_u32(largest << r.up, r.reciprocal);  // 2^26...2^29
    r.shift = 32 - as_signed(L::clz_u32(product)) - kCodeBits;
    // Outputs are off by 2, where sums are by 2^error_bits by half of 2^(error_bits - down) more, and
    // reciprocals below 2^31; that these are off by 6 counts 2, the exact way's mantissas and what the upper
    // word drops less than 4.
    const I32 of_sums = unit.error_bits - 2 - as_signed(down);
    r.margin = ((1 + (is_total ? 0 : of_sums > 0 ? 1u << of_sums : 1)) << r.up) + 6;
    // From 127.5 on the row's scale is the next one.
    const U32 last = (255u << r.shift) >> 1;
    r.sure = product + r.margin < last || product >= last + r.margin;
    if (product >= last) ++r.shift;
    r.half = (1u << r.shift) >> 1;
    r.fraction = (1u << r.shift) - 1;
    r.scale_exponent = 4 + r.shift - r.up + as_signed(down) + largest_exponent - sum.exponent + unit.octave;
    return r;
  }

  /// The code, if the second number is not below twice the margin: how far above a tie less the margin it is.
  struct Code {
    I32 code;
    U32 above;
  };
  static OCTET_HD Code code(I32 output, const Row& row) {
    const I32 product = L::mulhi_i32(L::shl_i32(output, as_unsigned(row.up)), as_signed(row.reciprocal));
    const U32 rounded = as_unsigned(product) + row.half;
    return {as_signed(rounded) >> row.shift, (rounded + row.margin) & row.fraction};
  }
};

}  // namespace octet::integer
