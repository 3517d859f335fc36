#include "bench/exact_rows.h"

#include <algorithm>

#include "common/real.h"

namespace octet::tool {
namespace {

constexpr double kGigaOperations = 1;  // about a second of float64 attention on two cores

/// Rows [first, first + rows) as a problem of its own: with a causal mask, which aligns the last query with
/// the last key, the keys end where the last row's do.
Result<Output> attend_rows(const CpuWorkload& w, const CpuInputs& in, std::int64_t first, std::int64_t rows,
                           Threads& threads) {
  ProblemInput input;
  const auto cut = [](TensorView view, std::int64_t start, std::int64_t count) {
    view.data = static_cast<float*>(view.data) + start * view.stride[2];
    view.shape[2] = count;
    return view;
  };
  const std::int64_t keys = w.mask == Mask::causal ? w.tokens_k - w.tokens_q + first + rows : w.tokens_k;
  input.q = cut(in.q, first, rows), input.k = cut(in.k, 0, keys), input.v = cut(in.v, 0, keys);
  Result<AttentionDesc> desc = describe(Scheme::exact, input.q, input.k, input.v);
  if (!desc.ok()) return desc.status();
  desc.value().mask = w.mask;
  if (in.bias.data) {
    input.mask = cut(in.bias, first, rows);
    desc.value().bias = AttentionDesc::Bias::additive;
  }
  return attend_exactly(desc.value(), input, threads);
}

}  // namespace

Result<ExactRows> ExactRows::compute(const CpuWorkload& w, const CpuInputs& in, Threads& threads) {
  const double row_cost = giga_operations(w) / static_cast<double>(w.tokens_q);
  const auto affordable = static_cast<std::int64_t>(kGigaOperations / row_cost);
  ExactRows all;
  std::vector<std::int64_t> starts{0};
  std::int64_t rows = w.tokens_q;
  if (affordable < w.tokens_q) {
    rows = std::max<std::int64_t>(1, std::min(affordable / 3, w.tokens_q / 3));
    starts = {0, (w.tokens_q - rows) / 2, w.tokens_q - rows};
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  }
  for (std::int64_t first : starts) {
    Result<Output> exact = attend_rows(w, in, first, rows, threads);
    if (!exact.ok()) return exact.status();
    all.chunks_.push_back({first, exact.take()});
  }
  return all;
}

double ExactRows::relative_rmse(const HostTensor& o) const {
  ErrorSums sums;
  for (const Chunk& chunk : chunks_) {
    const TensorView& e = chunk.exact.view;
    const std::int64_t dim = e.shape[3], rows = e.shape[2], tokens = o.shape[2];
    for (std::int64_t head = 0; head < e.shape[0] * e.shape[1]; ++head) {
      for (std::int64_t i = 0; i < rows * dim; ++i) {
        const std::int64_t at = (head * tokens + chunk.first_row) * dim + i;
        sums.add(real_at(o.bytes.data(), o.dtype, at), real_at(e.data, e.dtype, head * rows * dim + i));
      }
    }
  }
  return sums.relative_rmse();
}

}  // namespace octet::tool
