#include "quant/smooth.h"

#include <algorithm>

#include "base/scratch.h"
#include "quant/rows.h"
#include "quant/tree.h"

namespace octet::quant {

void token_mean(const TensorView& x, const TokenRange& range, float* mean) {
  const std::int64_t dim = x.shape[3];
  if (range.length == 0) {
    std::fill_n(mean, dim, 0.0f);
    return;
  }
  const float factor = mean_factor(range.length);
  const RowKernels& kernels = row_kernels();
  TokenRows tokens(x, range);
  TreeSum sum(dim, range.length, thread_scratch());
  for (std::int64_t t = 0; t < range.length;) {
    const Rows rows = tokens.at(t, std::min(sum.room(), range.length - t));
    kernels.add(rows, factor, sum.leaf());
    sum.added(rows.count);
    t += rows.count;
  }
  sum.finish(mean);
  kernels.means(mean, mean_divisor(range.length), dim);
}

void anchor_shift(const TensorView& x, const TokenRange& range, const TensorView& anchor, float* shift) {
  const std::int64_t dim = x.shape[3];
  if (anchor.data) {
    load_row(anchor, anchor.shape[0] == 1 ? 0 : range.b, range.h, 0, shift);
  } else if (range.length > 0) {
    load_row(x, range.b, range.h, range.begin, shift);
  } else {
    std::fill_n(shift, dim, 0.0f);
  }
  for (std::int64_t c = 0; c < dim; ++c) shift[c] = is_finite(shift[c]) ? shift[c] : 0.0f;
}

}  // namespace octet::quant
