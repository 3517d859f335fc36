// What K is shifted by before it is quantised. Any finite shift is exact for softmax: it adds q.shift to all
// scores of a row, which cancels in O and is added back in the LSE.
#pragma once
#include <cstdint>

#include "octet/types.hpp"
#include "quant/mean.h"
#include "quant/token_rows.h"

namespace octet::quant {

/// mean[c], c < x.shape[3]: the mean over the range's tokens in f32. Every element is first multiplied by
/// 2^-s, s = ceil(log2(length)), so that the sum of the largest finite values stays finite; the sum is taken
/// in TreeSum's order and divided once by length * 2^-s, and clamped to the finite range. NaN and Inf count
/// as zero, so that one bad token does not spoil the others. Zeros for an empty range.
void token_mean(const TensorView& x, const TokenRange& range, float* mean);

/// shift[c]: the anchor (f32 [batch or 1, heads, 1, dim]) or, where its data is null, the range's first
/// token; NaN and Inf count as zero. Zeros for an empty range without an anchor. Depends on no later token.
void anchor_shift(const TensorView& x, const TokenRange& range, const TensorView& anchor, float* shift);

}  // namespace octet::quant
