// Exact attention in float64: the oracle that every error is measured against. Written apart from the schemes
// on purpose.
#include <cmath>
#include <vector>

#include "ref/attend.h"
#include "ref/schemes.h"

namespace octet::ref {
namespace {

constexpr double kMinus = -HUGE_VAL;

/// A tile of rows of an operand as doubles.
std::vector<double> load_rows(const HeadOperand& x, std::int64_t begin, std::int64_t end) {
  std::vector<double> tile(static_cast<std::size_t>((end - begin) * x.dim()));
  for (std::int64_t t = begin; t < end; ++t)
    x.load(t, &tile[static_cast<std::size_t>((t - begin) * x.dim())]);
  return tile;
}

double dot(const double* a, const double* b, std::int64_t count) {
  constexpr int kParts = 4;  // independent sums, so that the compiler can use vectors
  double part[kParts] = {};
  std::int64_t c = 0;
  for (; c + kParts <= count; c += kParts) {
    for (int i = 0; i < kParts; ++i) part[i] += a[c + i] * b[c + i];
  }
  for (int i = 0; c + i < count; ++i) part[i] += a[c + i] * b[c + i];
  return (part[0] + part[1]) + (part[2] + part[3]);
}

/// Running maximum, sum and output of one row.
struct ExactRow {
  double peak = kMinus, sum = 0;
  std::vector<double> out;

  void rescale(double new_peak) {
    const double factor = std::exp(peak - new_peak);
    sum *= factor;
    for (double& o : out) o *= factor;
    peak = new_peak;
  }
};

void attend_rows(const Problem& problem, const Work& work) {
  const AttentionDesc& desc = problem.desc;
  const std::int64_t kv_head = problem.kv_head(work.head);
  const HeadOperand q(problem.args.q, problem.q, work.sequence, work.head);
  const HeadOperand k(problem.args.k, problem.k, work.sequence, kv_head);
  const HeadOperand v(problem.args.v, problem.k, work.sequence, kv_head);
  const HeadBias bias(desc, problem.args.bias, problem.k.batch(work.sequence), work.head);
  const std::int64_t m = problem.q.length(work.sequence), n = problem.k.length(work.sequence);
  const std::int64_t dim = q.dim(), dim_v = v.dim();

  const std::vector<double> queries = load_rows(q, work.begin, work.end);
  std::vector<ExactRow> rows(static_cast<std::size_t>(work.end - work.begin));
  for (ExactRow& row : rows) row.out.assign(static_cast<std::size_t>(dim_v), 0.0);

  for (std::int64_t begin = 0; begin < n; begin += desc.key_block) {
    const std::int64_t end = std::min(begin + desc.key_block, n);
    const std::vector<double> keys = load_rows(k, begin, end), values = load_rows(v, begin, end);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const std::int64_t i = work.begin + static_cast<std::int64_t>(r);
      const KeyRange visible = visible_range(desc, i, m, n);
      for (std::int64_t j = std::max(begin, visible.begin); j < std::min(end, visible.end); ++j) {
        const double add = bias.at(i, j);
        if (add == kMinus) continue;
        const double score =
            double{desc.softmax_scale} * dot(&queries[r * static_cast<std::size_t>(dim)],
                                             &keys[static_cast<std::size_t>((j - begin) * dim)], dim) +
            add;
        if (!(score <= rows[r].peak)) rows[r].rescale(score);  // NaN too: it must reach the row's output
        const double weight = std::exp(score - rows[r].peak);
        rows[r].sum += weight;
        for (std::int64_t c = 0; c < dim_v; ++c) {
          rows[r].out[static_cast<std::size_t>(c)] +=
              weight * values[static_cast<std::size_t>((j - begin) * dim_v + c)];
        }
      }
    }
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const RowWriter writer(problem.args, problem.q.batch(work.sequence), work.head,
                           problem.q.begin(work.sequence) + work.begin + static_cast<std::int64_t>(r));
    const ExactRow& row = rows[r];
    const bool empty = row.sum == 0;
    for (std::int64_t c = 0; c < dim_v; ++c)
      writer.value(c, empty ? 0.0 : row.out[static_cast<std::size_t>(c)] / row.sum);
    writer.lse(empty ? kMinus : row.peak + std::log(row.sum));
  }
}

}  // namespace

void attend_exact(const Problem& problem) {
  for_each_work(problem, [&](const Work& work) { attend_rows(problem, work); });
}

}  // namespace octet::ref
