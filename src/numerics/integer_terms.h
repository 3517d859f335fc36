// Sums of integer_bins.h for rows that take one or two key blocks and no more: both are known before anything
// is added, so no bin is needed. A kernel keeps the sums of the blocks' products apart, 32 bits each, until
// the row ends.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/integer_arith.h"
#include "numerics/integer_bins.h"

namespace octet::integer {

/// What a row takes from a key block: `mass` into its sum at `octave`, and the sums of the block's products
/// times `fold` into its outputs at `out_octave`.
struct Term {
  std::int64_t mass;  ///< weights times multipliers, times the fold, less 12 bits: below 2^35
  std::int32_t octave, out_octave, fold;

  /// The highest of so many octaves.
  template <int kTerms, class OctaveOf>
  static OCTET_HD std::int32_t highest(const Term (&terms)[kTerms], const OctaveOf& octave_of) {
    std::int32_t most = octave_of(terms[0]);
    for (int i = 1; i < kTerms; ++i) most = octave_of(terms[i]) > most ? octave_of(terms[i]) : most;
    return most;
  }
};

/// What Bins make of x at `octave` when bin `top` is the highest: in units of that, rounded, ties upwards; 0
/// below the three highest.
OCTET_HD std::int64_t below_top(std::int64_t x, std::int32_t octave, std::int32_t top) {
  const auto bins = static_cast<std::uint32_t>(top) - static_cast<std::uint32_t>(octave >> 4);
  const std::int64_t shifted = x << (octave & (kBinOctaves - 1));
  if (bins == 0) return shifted;
  if (bins >= kBins) return 0;
  return shift_round(shifted, static_cast<std::int32_t>(bins) * kBinOctaves);
}

/// An output as the sum of products of 32 bits, each with its term's factor: near what Bins make of it, and
/// in units of its own.
template <int kTerms>
struct Joined {
  static constexpr std::int32_t kUp = 19;  ///< a fold's 12 bits to 31
  std::int32_t factor[kTerms];
  std::int32_t octave;      ///< of a unit
  std::int32_t error_bits;  ///< within 2^so many units of what Bins make; 0: that itself

  /// Terms of |sum| < 2^22. The factor of a term more than kUp octaves below the highest is truncated, by
  /// less than a unit, and the product by less than 2^22. What lies in a lower bin Bins round, by half a unit
  /// of the highest bin, which is no higher than the highest term: 2^18 units here.
  static OCTET_HD Joined of(const Term (&terms)[kTerms]) {
    constexpr std::int32_t kOfRounding = 18, kOfTruncation = 23;
    Joined j{};
    const std::int32_t most = Term::highest(terms, [](const Term& t) { return t.out_octave; });
    j.octave = most - kUp;
    for (int i = 0; i < kTerms; ++i) {
      const std::uint32_t below =
          static_cast<std::uint32_t>(most) - static_cast<std::uint32_t>(terms[i].out_octave);
      const std::uint32_t factor = static_cast<std::uint32_t>(terms[i].fold) << kUp;
      j.factor[i] = below < 32 ? static_cast<std::int32_t>(factor >> below) : 0;
      const std::int32_t bits = below > kUp                                 ? kOfTruncation
                                : (terms[i].out_octave >> 4) != (most >> 4) ? kOfRounding
                                                                            : 0;
      j.error_bits = bits > j.error_bits ? bits : j.error_bits;
    }
    return j;
  }
  OCTET_HD std::int64_t sum(const std::int32_t (&sums)[kTerms]) const {
    std::int64_t total = 0;
    for (int i = 0; i < kTerms; ++i) total += std::int64_t{sums[i]} * factor[i];
    return total;
  }
};

}  // namespace octet::integer
