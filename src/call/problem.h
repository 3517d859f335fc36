// A call in a CPU backend's own terms: sequences, the operands of each head, and units of work.
#pragma once
#include <cstdint>

#include "base/sequences.h"
#include "numerics/contract.h"
#include "octet/types.hpp"

namespace octet::call {

/// How the key blocks of a row are visited: only tests of order and grouping ask for anything but the
/// default.
struct Schedule {
  enum class Order : std::int32_t { forward = 0, backward, odd_then_even } order = Order::forward;

  /// The block to visit at step i of `blocks`.
  std::int64_t at(std::int64_t i, std::int64_t blocks) const {
    if (order == Order::backward) return blocks - 1 - i;
    if (order == Order::forward) return i;
    const std::int64_t odd = blocks / 2;
    return i < odd ? 2 * i + 1 : 2 * (i - odd);
  }
};

/// The call, with its sequences made explicit.
struct Problem {
  const AttentionDesc& desc;
  const AttentionArgs& args;
  Sequences q, k;
  Schedule schedule;

  Problem(const AttentionDesc& d, const AttentionArgs& a, Schedule s = {}) : desc(d), args(a), schedule(s) {
    const std::int64_t count = d.sequences > 0 ? d.sequences : d.batch;
    q = {count, d.tokens_q, d.sequences > 0 ? a.cu_seqlens_q : nullptr};
    k = {count, d.tokens_k, d.sequences > 0 ? a.cu_seqlens_k : nullptr};
  }
  const Sequences& v() const { return k; }
  std::int64_t kv_head(std::int64_t head) const { return head / (desc.heads_q / desc.heads_kv); }
};

/// Query rows [begin, end) of one head of one sequence.
struct Work {
  std::int64_t sequence, head, begin, end;
};

/// Constants of the whole call for a scheme; `table` is what the scheme asked for, if anything.
inline Prepare prepare_input(const Problem& problem, const float* table) {
  const auto tensor_scale = [](const QuantizedTensor& x, Granularity g) {
    return x.scales.data && g == Granularity::tensor ? *static_cast<const float*>(x.scales.data) : 0.0f;
  };
  const AttentionDesc& desc = problem.desc;
  Prepare p;
  p.softmax_scale = desc.softmax_scale;
  p.head_dim = static_cast<std::int32_t>(desc.head_dim);
  p.key_block = static_cast<std::int32_t>(desc.key_block);
  p.tokens_k = desc.tokens_k;
  p.q_scale = tensor_scale(problem.args.q, desc.recipe.q);
  p.k_scale = tensor_scale(problem.args.k, desc.recipe.k);
  p.v_scale = tensor_scale(problem.args.v, desc.recipe.v);
  p.options = desc.options;
  p.table = table;
  return p;
}

}  // namespace octet::call
