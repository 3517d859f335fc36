#include "ref/bound_survey.h"

#include <numeric>
#include <vector>

#include "call/operand.h"

namespace octet::ref {
namespace {

/// The longest row of an operand, in codes.
double longest_row(const Problem& problem, const QuantizedTensor& x, const Sequences& sequences,
                   std::int64_t heads) {
  double longest = 0;
  std::vector<float> row(static_cast<std::size_t>(x.codes.shape[3]));
  for (std::int64_t i = 0; i < problem.q.count * heads; ++i) {
    const HeadOperand operand(x, sequences, i / heads, i % heads);
    for (std::int64_t t = 0; t < sequences.length(i / heads); ++t) {
      operand.load(t, row.data());
      longest = std::max(longest, std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    }
  }
  return std::sqrt(longest);
}

}  // namespace

double largest_product(const Problem& problem) {
  return std::ceil(longest_row(problem, problem.args.q, problem.q, problem.desc.heads_q) *
                   longest_row(problem, problem.args.k, problem.k, problem.desc.heads_kv));
}

}  // namespace octet::ref
