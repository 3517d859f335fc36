// Exact sums of value * 2^octave that do not depend on the order of their terms: the accumulators of the
// scheme `integer`.
//
// Octaves are cut into bins of 16. A value is shifted left by octave mod 16 and added to its bin's 64-bit
// accumulator; the three highest bins that have been seen are kept. When a higher one appears they move down,
// and what falls out is lost, whenever it came: the result is the sum over the terms of the three highest
// bins of all.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/integer_arith.h"

namespace octet::integer {

inline constexpr std::int32_t kBins =
    3;  // with two, 64k flat keys across an unlucky edge lose everything below 17 octaves
inline constexpr std::int32_t kBinOctaves =
    16;  // 62 bits are 47 of a sum and 15 of its shift: docs/numerics/integer.md, ranges
inline constexpr std::int32_t kNoBin = -(1 << 28);  // number of the highest bin before anything was added

/// Where a term goes: the number of the highest bin from now on, how far the bins move down, the term's bin
/// (kBins or more: too low to count), and its shift.
struct Place {
  std::int32_t top;
  std::int32_t moved;
  std::int32_t slot;
  std::int32_t shift;
};

/// |octave| < 2^31.
OCTET_HD Place place(std::int32_t top, std::int32_t octave) {
  const std::int32_t number = octave >> 4;
  const std::int32_t highest = number > top ? number : top;
  return {highest, highest - top, highest - number, octave & (kBinOctaves - 1)};
}

/// Three accumulators; bin 0 is the highest. I64 is one number or a vector lane of them.
template <class L>
struct Bins {
  using I64 = typename L::I64;
  I64 bin[kBins] = {};

  /// What was in bins that fall out is not looked at.
  OCTET_HD void move_down(std::int32_t bins) {
    if (bins <= 0) return;
    for (int i = kBins - 1; i >= 0; --i) {
      bool found = false;
      for (int from = 0; from < i; ++from) {
        if (from != i - bins) continue;
        bin[i] = bin[from];
        found = true;
      }
      if (!found) bin[i] = I64{};
    }
  }
  /// The same where bins [0, used) hold sums and the others anything, and a bin `slot` is wanted too.
  OCTET_HD void make_room(std::int32_t bins, std::int32_t slot, std::int32_t used) {
    if (used > 0 && bins > 0) {
      for (int i = kBins - 1; i >= bins; --i)
        if (i - bins < used) bin[i] = bin[i - bins];
      for (int i = 0; i < kBins && i < bins; ++i) bin[i] = I64{};
    } else {
      for (int i = 0; i < kBins; ++i)  // counted so, no compiler calls memset for a bin
        if (used <= i && i <= slot) bin[i] = I64{};
    }
  }
  OCTET_HD void add(std::int32_t slot, I64 term) {
    // A branch a bin, and not a choice of values: the slot is one for all channels of a row, and what is not
    // changed need not be written.
    for (int i = 0; i < kBins; ++i) {
      if (i == slot) bin[i] = L::add_i64(bin[i], term);
    }
  }
  /// The sum in units of bin 0, of the bins that are in use.
  OCTET_HD I64 total(std::int32_t unused = 0) const {
    if (unused == 2) return bin[0];
    const I64 two = L::add_i64(bin[0], rounded(bin[1], kBinOctaves));
    if (unused == 1) return two;
    return L::add_i64(two, rounded(bin[2], 2 * kBinOctaves));
  }
  /// Adds the bins of another set of terms; `top` and `other_top` are the numbers of the two highest bins.
  /// Associative and commutative: split keys, several devices.
  OCTET_HD void merge(std::int32_t top, Bins other, std::int32_t other_top) {
    const std::int32_t highest = top > other_top ? top : other_top;
    move_down(highest - top);
    other.move_down(highest - other_top);
    for (int i = 0; i < kBins; ++i) bin[i] = L::add_i64(bin[i], other.bin[i]);
  }

 private:
  /// x * 2^-n, ties upwards. |x| < 2^62.
  static OCTET_HD I64 rounded(I64 x, std::uint32_t n) {
    return L::sra_i64(L::add_i64(x, std::int64_t{1} << (n - 1)), n);
  }
};

}  // namespace octet::integer
