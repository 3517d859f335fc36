// error_bound(): walks rows and channels; the mathematics is in numerics/bound.h and ref/bound_terms.cpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "ref/attend.h"
#include "ref/bound_keys.h"
#include "ref/bound_terms.h"
#include "ref/reference.h"

namespace octet::ref {
namespace {

/// The bound covers its own arithmetic: some hundred roundings in float64.
constexpr double kOwnRoundings = 1 + 0x1p-40;

float rounded_up(double x) {
  const auto nearest = static_cast<float>(x);
  return nearest < x ? std::nextafter(nearest, std::numeric_limits<float>::infinity()) : nearest;
}

void bound_rows(const Problem& plain, const Problem& quantised, const Terms& scheme, const KeyBlocks& blocks,
                const Work& work, const TensorView& bound) {
  const HeadOperand q(quantised.args.q, quantised.q, work.sequence, work.head);
  VisibleKeys visible(plain, quantised, blocks, work);
  std::vector<float> scratch;
  for (std::int64_t i = work.begin; i < work.end; ++i) {
    const KeySet& keys = visible.of(i);
    const RowNorms norms = norms_of(q, i, scratch);
    const RowTerms terms = keys.keys > 0 ? scheme.of(norms, keys) : RowTerms{};
    const std::int64_t token = quantised.q.begin(work.sequence) + i;
    float* row = static_cast<float*>(bound.data) + quantised.q.batch(work.sequence) * bound.stride[0] +
                 work.head * bound.stride[1] + token * bound.stride[2];
    double largest = 0;
    for (const ChannelTerms& v : keys.v) largest = std::max(largest, largest_output(terms, v));
    for (std::size_t c = 0; c < keys.v.size(); ++c)
      row[static_cast<std::int64_t>(c) * bound.stride[3]] =
          rounded_up(error_bound(terms, keys.v[c], largest) * kOwnRoundings);
  }
}

}  // namespace

Status error_bound(const AttentionDesc& desc, const AttentionArgs& plain_args,
                   const AttentionArgs& quantised_args, const TensorView& bound) {
  const Problem plain(desc, plain_args), quantised(desc, quantised_args);
  const std::int64_t heads = desc.heads_kv;
  std::vector<std::unique_ptr<KeyBlocks>> blocks(static_cast<std::size_t>(quantised.k.count * heads));
  for_each_parallel(quantised_args.parallel_for, quantised.k.count * heads, [&](std::int64_t i) {
    blocks[static_cast<std::size_t>(i)] = std::make_unique<KeyBlocks>(plain, quantised, i / heads, i % heads);
  });
  const Terms scheme(plain, quantised);
  for_each_work(quantised, [&](const Work& work) {
    const std::int64_t i = work.sequence * heads + quantised.kv_head(work.head);
    bound_rows(plain, quantised, scheme, *blocks[static_cast<std::size_t>(i)], work, bound);
  });
  return {};
}

}  // namespace octet::ref
