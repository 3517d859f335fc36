// The sums of integer_bins.h for kernels that want most terms in one accumulator without a branch: a window
// of a bin and the next one's lowest octaves. The total rounds the lower of two bins to the upper one's unit
// once, so a sum of both, in the lower one's unit, gives the same.
//
// What the window does not hold goes to three other accumulators: two bins below it, and the upper bin's
// other octaves. Only where a third bin appears above both can the two not be parted any more; then a row has
// to be summed again without the upper one's octaves.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/integer_bins.h"

namespace octet::integer {

/// Which accumulators of a row hold sums; the others may hold anything.
class Window {
 public:
  static constexpr std::int32_t kOthers = 3, kAbove = 2;  ///< others: home - 1, home - 2, home + 1

  /// Where a term of |value| < 2^34 goes.
  struct Entry {
    std::int32_t moved = 0;         ///< bins that the sums move down before
    std::int32_t factor = 0;        ///< of the term in the window; 0 if it goes elsewhere
    std::int32_t other = 0;         ///< the other accumulator
    std::int32_t other_factor = 0;  ///< of the term there; 0 if it does not count there
    bool opens = false;             ///< whether that starts from 0
  };

  /// Octaves of the upper bin that a sum of so many terms may have: what is left of 62 bits, and of a
  /// factor's 31, by a term's 34, or a fold's 12, and a bin's shift.
  static OCTET_HD std::int32_t octaves_above(std::int32_t terms) {
    constexpr std::int32_t kOfFactor = 31 - 12 - (kBinOctaves - 1);
    const std::int32_t of_sum = 62 - 34 - (kBinOctaves - 1) - bit_length(static_cast<std::uint64_t>(terms));
    const std::int32_t above = of_sum < kOfFactor ? of_sum : kOfFactor;
    return above > 0 ? above : 0;
  }

  /// A term of fold * 2^shift of bin `number`. above: how many octaves of the upper bin the window has.
  OCTET_HD Entry enter(std::int32_t number, std::int32_t shift, std::int32_t fold, std::int32_t above) {
    constexpr std::int32_t kRoom = 2;  // octaves that later terms may be higher
    if (home_ == kNoBin) home_ = shift + kRoom < above ? number - 1 : number;
    Entry e;
    std::int32_t bins = number - home_;
    const bool in_window = bins == 0 || (bins == 1 && shift < above);
    if (bins > 0 && !in_window && (bins > 1 || (has_ & kUpper) == 0)) {
      if ((has_ & kUpper) != 0) {
        mixed_up_ = true;
        return e;
      }
      e.moved = bins;
      move(bins);
      home_ = number;
      bins = 0;
    }
    const std::int32_t factor = fold << shift;
    if (bins == 0 || (bins == 1 && shift < above)) {
      e.factor = factor << (bins * kBinOctaves);
      has_ |= bins == 0 ? kWindow : kWindow | kUpper;
    } else if (bins > -kBins && (bins > 1 - kBins || (has_ & kUpper) == 0)) {
      e.other = bins == 1 ? kAbove : -1 - bins;
      e.other_factor = factor;
      e.opens = (has_ & (1 << e.other)) == 0;
      has_ |= 1 << e.other;
    }
    return e;
  }

  /// Whether a term came that the row cannot take any more.
  OCTET_HD bool mixed_up() const { return mixed_up_; }
  /// Whether the window is all that there is.
  OCTET_HD bool alone() const { return (has_ & kAnyOther) == 0; }
  /// What total() needs, as a word.
  OCTET_HD std::int32_t contents() const { return has_; }
  /// Whether the window's unit is below the total's, that of the highest bin.
  static OCTET_HD bool is_lower(std::int32_t contents) { return (contents & kUpper) != 0; }

  /// Bins::total() of all terms. others: anything where they are not in use.
  static OCTET_HD std::int64_t total(std::int32_t contents, std::int64_t window,
                                     const std::int64_t (&others)[kOthers]) {
    std::int64_t of[kOthers];
    for (int i = 0; i < kOthers; ++i) of[i] = (contents & (1 << i)) != 0 ? others[i] : 0;
    if (is_lower(contents))
      return rounded(window, kBinOctaves) + of[kAbove] + rounded(of[0], 2 * kBinOctaves);
    return window + rounded(of[0], kBinOctaves) + rounded(of[1], 2 * kBinOctaves);
  }

 private:
  static constexpr std::int32_t kAnyOther = (1 << kOthers) - 1;
  static constexpr std::int32_t kWindow = 1 << kOthers;  ///< the window holds anything
  static constexpr std::int32_t kUpper = kWindow
                                         << 1;  ///< terms of the upper bin came, so there is no home - 2

  /// Before any term of the upper bin: the window is a bin like the others.
  OCTET_HD void move(std::int32_t bins) {
    const std::int32_t next = bins == 1 ? (has_ & kWindow) >> kOthers : 0;
    const std::int32_t last = bins == 1 ? has_ & 1 : bins == 2 ? (has_ & kWindow) >> kOthers : 0;
    has_ = next | last << 1;
  }
  /// x * 2^-n, ties upwards. |x| < 2^62.
  static OCTET_HD std::int64_t rounded(std::int64_t x, std::uint32_t n) {
    return (x + (std::int64_t{1} << (n - 1))) >> n;
  }

  std::int32_t home_ = kNoBin, has_ = 0;
  bool mixed_up_ = false;
};

}  // namespace octet::integer
