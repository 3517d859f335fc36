#include "bench/gpu_reference.h"

#include <algorithm>
#include <set>

#include "common/real.h"

namespace octet::tool {
namespace {

constexpr double kGigaOfReference = 1;  // about a second of float64 attention on two cores

/// Rows of a head as a problem of their own: with a causal mask, which aligns the last query with the last
/// key, the keys end where the last row's do.
ProblemInput problem_of(const CpuWorkload& w, const CpuInputs& in, const SampledRows& rows) {
  const auto cut = [](TensorView view, std::int64_t batch, std::int64_t head, std::int64_t first,
                      std::int64_t count) {
    view.data = static_cast<float*>(view.data) + batch * view.stride[0] + head * view.stride[1] +
                first * view.stride[2];
    view.shape[0] = view.shape[1] = 1, view.shape[2] = count;
    return view;
  };
  const std::int64_t keys = w.mask == Mask::causal ? rows.first + rows.count : w.tokens_k;
  const std::int64_t kv_head = rows.head / (w.heads_q / w.heads_kv);
  ProblemInput input;
  input.q = cut(in.q, rows.batch, rows.head, rows.first, rows.count);
  input.k = cut(in.k, rows.batch, kv_head, 0, keys), input.v = cut(in.v, rows.batch, kv_head, 0, keys);
  return input;
}

Result<Output> exactly(const CpuWorkload& w, const ProblemInput& input, Threads& threads) {
  Result<AttentionDesc> desc = describe(Scheme::exact, input.q, input.k, input.v);
  if (!desc.ok()) return desc.status();
  desc.value().mask = w.mask;
  return attend_exactly(desc.value(), input, threads);
}

}  // namespace

std::vector<SampledRows> sampled_rows(const CpuWorkload& w) {
  if (giga_operations(w) <= kGigaOfReference) return {};
  constexpr std::int64_t kHeads = 4, kChunks = 4, kMostRows = 32;
  const std::int64_t all = w.batch * w.heads_q;
  std::set<std::int64_t> heads;
  for (std::int64_t i = 0; i < kHeads; ++i) heads.insert(i * (all - 1) / (kHeads - 1));
  const double row = giga_operations(w) / static_cast<double>(all * w.tokens_q);
  const double affordable =
      kGigaOfReference / row / static_cast<double>(static_cast<std::int64_t>(heads.size()) * kChunks);
  const std::int64_t count = std::clamp<std::int64_t>(static_cast<std::int64_t>(affordable), 1,
                                                      std::clamp<std::int64_t>(w.tokens_q / 8, 1, kMostRows));
  std::vector<SampledRows> samples;
  for (const std::int64_t head : heads) {
    for (std::int64_t c = 0; c < kChunks; ++c)
      samples.push_back(
          {head / w.heads_q, head % w.heads_q, w.tokens_q * (2 * c + 1) / (2 * kChunks), count});
  }
  return samples;
}

Result<GpuReference> GpuReference::compute(const CpuWorkload& w, const CpuInputs& in, Threads& threads) {
  GpuReference all;
  all.workload_ = w, all.samples_ = sampled_rows(w);
  threads.announce({});
  const auto add = [&](const ProblemInput& input) -> Status {
    Result<Output> exact = exactly(w, input, threads);
    if (exact.ok()) all.exact_.push_back(exact.take());
    return exact.ok() ? Status{} : exact.status();
  };
  if (all.samples_.empty()) {
    ProblemInput input;
    input.q = in.q, input.k = in.k, input.v = in.v;
    if (Status s = add(input); !s.ok()) return s;
  }
  for (const SampledRows& rows : all.samples_)
    if (Status s = add(problem_of(w, in, rows)); !s.ok()) return s;
  return all;
}

std::int64_t GpuReference::rows() const {
  std::int64_t rows = 0;
  for (const Output& exact : exact_) rows += exact.view.shape[0] * exact.view.shape[1] * exact.view.shape[2];
  return rows;
}

double GpuReference::relative_rmse(std::span<const std::byte> o, DType dtype) const {
  ErrorSums sums;
  const CpuWorkload& w = workload_;
  for (std::size_t i = 0; i < exact_.size(); ++i) {
    const TensorView& e = exact_[i].view;
    const SampledRows rows = samples_.empty() ? SampledRows{} : samples_[i];
    const std::int64_t first = ((rows.batch * w.heads_q + rows.head) * w.tokens_q + rows.first) * w.head_dim;
    const std::int64_t count = e.shape[0] * e.shape[1] * e.shape[2] * e.shape[3];
    for (std::int64_t j = 0; j < count; ++j)
      sums.add(real_at(o.data(), dtype, first + j), real_at(e.data, e.dtype, j));
  }
  return sums.relative_rmse();
}

}  // namespace octet::tool
