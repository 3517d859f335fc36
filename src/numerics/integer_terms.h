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
  const std::uint32_t down = bins < kBins ? bins * kBinOctaves : 0;  // no branch: GPUs wait where they part
  const std::int64_t rounded = (shifted + ((std::int64_t{1} << down) >> 1)) >> down;
  return bins < kBins ? rounded : 0;
}

}  // namespace octet::integer
