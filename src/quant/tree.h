// The order in which every sum over tokens is taken, so that all backends get the same bits.
#pragma once
#include <cstdint>

#include "base/scratch.h"

namespace octet::quant {

/// Sums rows of `channels` floats over the tokens of one sequence, each channel on its own, in f32:
/// - leaves of 128 tokens (the last may be shorter): s = x_0, then s += x_1, s += x_2, ... in token order;
/// - above them, level by level, neighbours 2i and 2i + 1 are added (left + right); an odd last one is passed
///   on unchanged, until one is left.
/// A GPU gets the same bits with a thread a channel in each leaf and the usual reduction above. Takes
/// channels * (2 + log2(leaves)) floats of scratch, which hold until its reset.
class TreeSum {
 public:
  static constexpr std::int64_t kLeafTokens = 128;

  /// tokens: so many at most.
  TreeSum(std::int64_t channels, std::int64_t tokens, Scratch& scratch);

  /// The next rows are to be added to leaf(), one after the other and at most room() of them; added() says
  /// how many were.
  float* leaf();
  std::int64_t room() const { return kLeafTokens - in_leaf_; }
  void added(std::int64_t rows);

  /// The sum of all rows so far, zeros where there were none..
  void finish(float* sum);

 private:
  /// Adds a finished subtree of 2^level leaves; two of one level become one of the next (a binary counter,
  /// which leaves the same pairs as going level by level does).
  void push(std::int64_t level);
  float* carry() { return sums_; }
  float* level_sum(std::int64_t level) { return sums_ + (1 + level) * channels_; }
  bool waits(std::int64_t level) const { return waiting_ >> level & 1; }

  std::int64_t channels_;
  std::int64_t in_leaf_ = 0;
  /// The leaf that is being filled, or the subtree on its way up; and of each level the one that waits for
  /// its right neighbour.
  float* sums_;
  std::uint64_t waiting_ = 0;  ///< bit l: level l has one
};

}  // namespace octet::quant
