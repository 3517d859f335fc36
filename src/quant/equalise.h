// Equalisation of V: channels times powers of two, so that a channel of small norm uses its codes too. Exact:
// the epilogue multiplies the output's channels back.
#pragma once
#include <cstdint>

#include "quant/channel_exponent.h"
#include "quant/row_kernels.h"
#include "quant/tree.h"

namespace octet::quant {

/// Collects the channel norms of one sequence of one head, in one pass or two, and turns them into exponents.
///
/// With r_c the root mean square of channel c over the tokens and r the largest of them, the exponent e_c is
/// the largest integer with 2^e_c * r <= r_c, so that every r_c / 2^e_c lies in [r, 2r): norms within a
/// factor of 2. The reference is the largest channel, not a mean, because a maximum has no order of
/// summation, zero channels do not disturb it, and multiplying V by a power of two leaves the exponents
/// alone. A zero channel has exponent 0; exponents are at least -64, and at least so large that no element
/// leaves the finite range.
///
/// Arithmetic (f32, correctly rounded): k_c = max(floor(log2 amax_c), -126); S_c = sum over tokens of
/// (x * 2^-k_c)^2 in TreeSum's order; n_c = sqrt(S_c) * 2^k_c, kept as mantissa and exponent and compared in
/// integers. The scaling keeps every square in [0, 4). NaN and Inf count as zero.
///
/// Where the squares of a channel are all normal numbers with the scaling and without it, and their sum is
/// finite, the two sums are the same but for 2^2k, at every step: one pass sums them without it and finds the
/// largest, of which k is half the exponent. Zeros among them are no normal numbers, and take two passes.
class ChannelNorms {
 public:
  /// tokens: so many at most. What it takes of scratch holds until its reset.
  ChannelNorms(std::int64_t channels, std::int64_t tokens, Scratch& scratch);

  /// The one pass: every token, in order.
  void see(const Rows& rows);
  /// exponent[c] after it; false where two passes are needed, which may follow.
  bool exponents_at_once(std::int32_t* exponent);

  /// First pass, every token. Whether all of the rows' elements are finite.
  bool measure(const FloatRows& rows);
  void begin_squares();                ///< between the passes
  void square(const FloatRows& rows);  ///< second pass, every token, in order
  bool measure(const float* row) { return measure(one(row)); }
  void square(const float* row) { square(one(row)); }
  /// exponent[c] after both passes.
  void exponents(std::int32_t* exponent);

 private:
  FloatRows one(const float* row) const;
  void make_largest();  ///< zeros, where there is none yet
  /// add(rows, sum) for the rows in pieces of the tree's leaves.
  template <class AnyRows, class Add>
  void add_to_tree(const AnyRows& rows, const Add& add);

  const RowKernels& kernels_;
  std::int64_t channels_;
  Scratch& scratch_;
  // [channel]
  float *root_, *amax_;               // amax_: of the finite |x|, from begin_squares() on
  std::int32_t *least_, *most_;       // of the squares, as bits: of the one pass
  std::uint32_t* largest_ = nullptr;  // bits of the largest finite |x|: of the two passes
  float* factor_ = nullptr;           // the same
  TreeSum squares_;
};

}  // namespace octet::quant
