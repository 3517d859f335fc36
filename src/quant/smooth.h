// What K is shifted by before it is quantised. Any finite shift is exact for softmax: it adds q.shift to all
// scores of a row, which cancels in O and is added back in the LSE.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "octet/types.hpp"
#include "quant/token_rows.h"

namespace octet::quant {

/// 2^-s, s = ceil(log2(length)): what elements are multiplied by before they are summed; length > 0.
OCTET_HD float mean_factor(std::int64_t length) {
  int halvings = 0;
  while ((std::int64_t{1} << halvings) < length) ++halvings;
  return power_of_two(-halvings);
}

/// What a sum with that factor is divided by: (1/2, 1].
OCTET_HD float mean_divisor(std::int64_t length) { return static_cast<float>(length) * mean_factor(length); }

/// The mean of elements whose sum with that factor is `sum`.
OCTET_HD float mean_of_scaled(float sum, float divisor) {
  const float mean = sum / divisor;
  constexpr float kLargest = 0x1.fffffep127f;
  const float above = mean > kLargest ? kLargest : mean;
  return above < -kLargest ? -kLargest : above;
}
/// The same of `length` elements.
OCTET_HD float mean_of_sum(float sum, std::int64_t length) {
  return mean_of_scaled(sum, mean_divisor(length));
}

/// mean[c], c < x.shape[3]: the mean over the range's tokens in f32. Every element is first multiplied by
/// 2^-s, s = ceil(log2(length)), so that the sum of the largest finite values stays finite; the sum is taken
/// in TreeSum's order and divided once by length * 2^-s, and clamped to the finite range. NaN and Inf count
/// as zero, so that one bad token does not spoil the others. Zeros for an empty range.
void token_mean(const TensorView& x, const TokenRange& range, float* mean);

/// shift[c]: the anchor (f32 [batch or 1, heads, 1, dim]) or, where its data is null, the range's first
/// token; NaN and Inf count as zero. Zeros for an empty range without an anchor. Depends on no later token.
void anchor_shift(const TensorView& x, const TokenRange& range, const TensorView& anchor, float* shift);

}  // namespace octet::quant
