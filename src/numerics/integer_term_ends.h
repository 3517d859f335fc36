// Codes of a row of the scheme `integer` that takes one or two key blocks (integer_terms.h), from 31 bits of
// its outputs, where these decide them. The row's reciprocal is in the factors of the blocks' sums, so that a
// shift is all that leads from outputs to codes. docs/numerics/integer.md has the bounds.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "numerics/integer_arith.h"
#include "numerics/integer_quick_ends.h"
#include "numerics/integer_terms.h"

namespace octet::integer {

template <class L, int kTerms>
struct TermEnds {
  static_assert(L::kWidth == 1, "the numbers of one output");
  using I32 = std::int32_t;
  using U32 = std::uint32_t;
  using Terms = Term[kTerms];

  /// What outputs are made of, and what their scale will need.
  struct Factors {
    I32 of[kTerms];  ///< of the terms' sums: folds times the reciprocal, 31 bits
    U32 down;        ///< brings the sum of the products to 31 bits and their sign
    U32 error;       ///< of it then, at most, in units
    U32 reciprocal;  ///< within 6, of the row's sum
    I32 exponent;    ///< of a unit, less that of the channels' constants

    /// What output() needs of it, each word through `from`.
    template <class From>
    OCTET_HD Factors passed(const From& from) const {
      Factors f{};
      for (int i = 0; i < kTerms; ++i) f.of[i] = from(of[i]);
      f.down = from(down);
      return f;
    }
    /// A channel's output, below 2^30 in size. channel: its constant of 31 bits (QuickEnds::factor).
    OCTET_HD I32 output(const I32 (&sums)[kTerms], I32 channel) const {
      std::int64_t sum = 0;
      for (int i = 0; i < kTerms; ++i) sum += std::int64_t{sums[i]} * of[i];
      return L::mulhi_i32(L::low_word_down(sum, down), channel);
    }
  };

  /// total: the row sum, above 0, in units of bin sum_top. largest: of the terms' sums in size.
  static OCTET_HD Factors factors(const Terms& terms, std::int64_t total, I32 sum_top, U32 largest) {
    constexpr I32 kMantissaBits = 31, kFoldBits = 12, kReciprocalBits = 31;
    // A unit of the highest bin is at most 2^19.01 here. Half of one is what rounds a term up to two bins
    // below; a term farther below falls out, at most two.
    constexpr U32 kHalfOfBin = 1u << 19, kTwoOfBin = 1u << 21;
    const auto sum = NearReciprocal<L>::of(total);
    const I32 most = Term::highest(terms, [](const Term& t) { return t.out_octave; });
    Factors f{};
    f.reciprocal = sum.reciprocal;
    std::uint64_t size = 0;
    U32 of_bins = 0;  // what bins below the highest round
    for (int i = 0; i < kTerms; ++i) {
      const U32 below = static_cast<U32>(most) - static_cast<U32>(terms[i].out_octave);
      const U32 fold = static_cast<U32>(terms[i].fold) << (32 - kFoldBits);
      const U32 factor = L::mulhi_u32(f.reciprocal << (32 - kReciprocalBits), fold);
      f.of[i] = below < 32 ? as_signed(factor >> below) : 0;
      size += std::uint64_t{largest} * as_unsigned(f.of[i]);
      if (terms[i].out_octave >> 4 != most >> 4) of_bins |= below < 32 ? kHalfOfBin : kTwoOfBin;
    }
    const std::int32_t bits = bit_length(size);
    f.down = bits > kMantissaBits ? static_cast<U32>(bits - kMantissaBits) : 0;
    // Factors are off by less than a unit, which sums multiply; a unit for what is dropped there and one
    // here.
    f.error = (kTerms * largest >> f.down) + 2 + (of_bins != 0 ? (of_bins >> f.down) + 1 : 0);
    f.exponent = as_signed(f.down) + most - kBinOctaves * sum_top - sum.exponent - kExponentOfUnit;
    return f;
  }

  /// What the codes of a row share.
  struct Codes {
    U32 shift;           ///< from outputs to codes
    U32 margin;          ///< outputs are within this of what the exact way rounds
    I32 scale_exponent;  ///< of the lane's own row
    bool sure;           ///< whether the row's scale is known, and few of its codes are open

    template <class From>
    OCTET_HD Codes passed(const From& from) const {
      return {from(shift), from(margin), 0, false};
    }
    /// The code, if it is not open: how far its output lies above a tie less the margin is then open() or
    /// more, in units that fill a word.
    struct Code {
      I32 code;
      U32 above;
    };
    OCTET_HD Code code(I32 output) const {
      const I32 raised = output + as_signed(((1u << shift) >> 1) + margin);
      return {raised >> shift, as_unsigned(L::low_word_down(std::int64_t{raised} << 32, shift))};
    }
    OCTET_HD U32 open() const { return 2 * margin << (32 - shift); }
    /// What carries out of a word when added to Code::above of a code that is not open.
    OCTET_HD U32 least_closed() const { return 0u - open(); }
  };
  /// largest: output of the row in size. largest_exponent: of the channels' constants.
  static OCTET_HD Codes codes(U32 largest, const Factors& f, I32 largest_exponent) {
    constexpr I32 kCodeBits = 7, kLeastShift = 10;
    Codes c{};
    const I32 bits = 32 - as_signed(L::clz_u32(largest));
    if (bits < kCodeBits + kLeastShift) return c;
    c.shift = static_cast<U32>(bits - kCodeBits);
    // The channel's constant at least halves what its output is off by; of that constant itself and of the
    // word dropped there 2; of the reciprocal, within 7 of 2^29 and more, and of the exact way's roundings,
    // at most 5 2^-31, together less than 2^-26 of the output.
    c.margin = (f.error + 1) / 2 + 2 + (largest >> 26) + 1;
    // From 127.5 on the row's scale is the next one.
    const U32 last = (255u << c.shift) >> 1;
    c.sure = (largest + c.margin < last || largest >= last + c.margin) && c.margin <= (1u << c.shift) >> 6;
    if (largest >= last) ++c.shift;
    c.scale_exponent = as_signed(c.shift) + f.exponent + largest_exponent;
    return c;
  }

 private:
  /// The reciprocal's 2^61, less 11 bits that a factor drops, a word that an output drops, and the bit by
  /// which a channel's constant is less than a word.
  static constexpr I32 kExponentOfUnit = 61 - 11 - 32 - 1;
};

}  // namespace octet::integer
