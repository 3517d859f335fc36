#include "capi/prepass.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "base/sequences.h"
#include "base/try.h"
#include "capi/placed.h"
#include "capi/prepass_cuda.h"
#include "capi/v_grid.h"
#include "numerics/number_at.h"
#include "quant/rows.h"
#include "quant/token_rows.h"

namespace octet::capi {
namespace {

using quant::row_offset;

/// Largest finite absolute value of a plain tensor. NaN and Inf are the quantiser's to report.
float finite_amax(const TensorView& x) {
  float amax = 0;
  for (std::int64_t b = 0; b < x.shape[0]; ++b)
    for (std::int64_t h = 0; h < x.shape[1]; ++h)
      for (std::int64_t t = 0; t < x.shape[2]; ++t)
        for (std::int64_t c = 0; c < x.shape[3]; ++c) {
          const float a = std::fabs(number_at(x.data, x.dtype, row_offset(x, b, h, t) + c * x.stride[3]));
          if (std::isfinite(a)) amax = std::max(amax, a);
        }
  return amax;
}

enum class Conversion { now, before };

/// Places of heads' codes that nobody reads once they are packed: a head takes the first that is free, which
/// the one before it has left in the cache, and not its own. There are as many as heads.
class Places {
 public:
  explicit Places(std::int64_t count) : taken_(static_cast<std::size_t>(count)) {}

  std::int64_t take() {
    for (std::size_t i = 0;; i = (i + 1) % taken_.size())
      if (!taken_[i].exchange(true, std::memory_order_acquire)) return static_cast<std::int64_t>(i);
  }
  void leave(std::int64_t place) {
    taken_[static_cast<std::size_t>(place)].store(false, std::memory_order_release);
  }

 private:
  std::vector<std::atomic<bool>> taken_;
};

/// Codes of K and V of a head, of one of several sequences on average.
std::int64_t head_code_bytes(const Plan& plan) {
  const AttentionDesc& d = plan.desc;
  const std::int64_t tokens = d.tokens_k / std::max<std::int64_t>(d.sequences, 1);
  return tokens * (d.head_dim * bytes_of(plan.k.layout.codes.dtype) +
                   d.head_dim_v * bytes_of(plan.v.layout.codes.dtype));
}

/// One plain operand in the kernel's format, which it has from now on or from a call before.
Status convert(QuantizedTensor& x, const OperandPlan& planned, const quant::OperandRecipe& recipe,
               const Sequences& sequences, const AttentionArgs& args, Conversion conversion) {
  if (!planned.is_made()) return {};
  const QuantizedTensor out = placed(planned.layout, args.workspace);
  if (conversion == Conversion::now)
    OCTET_TRY(quant::quantize(x.codes, sequences, recipe, out, args.parallel_for));
  x = out;
  return {};
}

/// In double, four sums beside each other: one would wait for its own last addition.
double dot(const std::vector<float>& x_row, const std::vector<double>& y_row) {
  const float* x = x_row.data();
  const double* y = y_row.data();
  const std::size_t count = x_row.size(), fours = count / 4 * 4;
  double a = 0, b = 0, c = 0, d = 0;
  for (std::size_t i = 0; i < fours; i += 4) {
    a += double{x[i]} * y[i], b += double{x[i + 1]} * y[i + 1];
    c += double{x[i + 2]} * y[i + 2], d += double{x[i + 3]} * y[i + 3];
  }
  for (std::size_t i = fours; i < count; ++i) a += double{x[i]} * y[i];
  return (a + b) + (c + d);
}

/// softmax_scale * q . mean(K) for every query row, in double and rounded once.
void fill_q_anchor(const AttentionDesc& d, const TensorView& q, const TensorView& mean, const TensorView& out,
                   const AttentionArgs& args) {
  const Sequences queries = sequences_of(d, d.tokens_q, args.cu_seqlens_q);
  const std::int64_t group = d.heads_q / d.heads_kv;
  for_each_parallel(args.parallel_for, queries.count * d.heads_q, [&](std::int64_t unit) {
    const std::int64_t s = unit / d.heads_q, head = unit % d.heads_q, b = queries.batch(s);
    std::vector<float> row(static_cast<std::size_t>(d.head_dim));
    quant::load_row(mean, b, head / group, queries.cu_seqlens ? s : 0, row.data());
    const std::vector<double> of_keys(row.begin(), row.end());
    for (std::int64_t t = 0; t < queries.length(s); ++t) {
      const std::int64_t token = queries.begin(s) + t;
      quant::load_row(q, b, head, token, row.data());
      static_cast<float*>(out.data)[row_offset(out, b, head, token)] =
          static_cast<float>(double{d.softmax_scale} * dot(row, of_keys));
    }
  });
}

}  // namespace

Result<AttentionArgs> prepare(const Plan& plan, const CallLayout& call, const AttentionArgs& args,
                              Operands which) {
  const AttentionDesc& d = plan.desc;
  if (d.device == Device::cuda) return prepare_on_device(plan, call, args, which);
  OperandRecipes recipes = operand_recipes(d);
  recipes.k.anchor = args.k_anchor;
  if (d.scheme == Scheme::qattn && !takes_codes(d)) {
    if (which != Operands::all) {
      return Status{Code::unsupported,
                    "scheme qattn scales q, k and v by their one largest element, so plain k and v cannot be "
                    "packed without q; pass codes, or call octet_attend"};
    }
    const float amax =
        std::max({finite_amax(args.q.codes), finite_amax(args.k.codes), finite_amax(args.v.codes)});
    recipes.q.shared_amax = recipes.k.shared_amax = recipes.v.shared_amax = amax;
  }
  const Sequences queries = sequences_of(d, d.tokens_q, args.cu_seqlens_q);
  const Sequences keys = sequences_of(d, d.tokens_k, args.cu_seqlens_k);
  if (d.scheme == Scheme::integer && takes_codes(d) && which != Operands::queries)
    OCTET_TRY(check_v_grid(d, args.v, keys));
  AttentionArgs ready = args;
  const Conversion of_keys = which == Operands::queries ? Conversion::before : Conversion::now;
  OCTET_TRY(convert(ready.k, plan.k, recipes.k, keys, args, of_keys));
  OCTET_TRY(convert(ready.v, plan.v, recipes.v, keys, args, of_keys));
  if (which == Operands::keys) return ready;
  OCTET_TRY(convert(ready.q, plan.q, recipes.q, queries, args, Conversion::now));
  if (!shifts_lse(d)) return ready;

  ready.q_anchor = placed(call.q_anchor, args.workspace);
  TensorView q = args.q.codes;
  if (takes_codes(d)) {
    q = placed(call.q_dequantized, args.workspace);
    OCTET_TRY(quant::dequantize(args.q, queries, q, args.parallel_for));
  }
  // note: without keys there is no mean, and every LSE is -inf whatever is added to it.
  if (d.tokens_k == 0 || d.tokens_q == 0) {
    ready.q_anchor = {};
    return ready;
  }
  fill_q_anchor(d, q, ready.k.mean, ready.q_anchor, args);
  return ready;
}

bool packs_by_head(const Plan& plan) {
  constexpr std::int64_t kMostBytes = 512 * 1024;  // of a head's codes: half of a second-level cache
  const AttentionDesc& d = plan.desc;
  if (!plan.make_packer || !plan.k.is_made() || !plan.v.is_made() || d.scheme == Scheme::qattn) return false;
  const OperandRecipes recipes = operand_recipes(d);
  for (const quant::OperandRecipe* recipe : {&recipes.q, &recipes.k, &recipes.v})
    if (!quant::HeadQuantizer::takes(*recipe)) return false;
  return head_code_bytes(plan) <= kMostBytes;
}

namespace {

/// The heads of a call, for each of which K, V and Q become what the kernel takes.
class Heads {
 public:
  Heads(const Plan& plan, const AttentionArgs& args)
      : recipes_(recipes_of(plan.desc, args)),
        keys_(sequences_of(plan.desc, plan.desc.tokens_k, args.cu_seqlens_k)),
        queries_(sequences_of(plan.desc, plan.desc.tokens_q, args.cu_seqlens_q)),
        heads_(plan.desc.heads_kv),
        group_(plan.desc.heads_q / plan.desc.heads_kv),
        ready_(ready(plan, args)),
        k_(args.k.codes, keys_, recipes_.k, ready_.k),
        v_(args.v.codes, keys_, recipes_.v, ready_.v),
        packer_(plan.make_packer(plan.desc, ready_)),
        rows_(count()),
        packed_(count()) {
    if (plan.q.is_made()) q_.emplace(args.q.codes, queries_, recipes_.q, ready_.q);
  }

  std::int64_t count() const { return keys_.count * heads_; }

  /// Packs head i where its own place is. K, V and the next head's K: while one becomes codes, memory brings
  /// the next, and the second-level cache holds both.
  void pack(std::int64_t i) {
    const PackedHeadIndex head = index(i);
    pack(head, k_.ahead(head.sequence, head.kv_head + 1));
  }

  bool begin_attending() { return packer_->begin_attending(); }

  /// Packs head i in a place that is free, which the head before it has left in the cache, and attends its
  /// queries. What is not finite has become zeros: status() tells of it.
  void attend(std::int64_t i) {
    PackedHeadIndex head = index(i);
    if (!keys_.cu_seqlens) head.place = packed_.take();
    pack(head, {});
    for (std::int64_t h = head.kv_head * group_; q_ && h < (head.kv_head + 1) * group_; ++h)
      q_->run(head.sequence, h, {}, {});
    packer_->attend(head);
    if (!keys_.cu_seqlens) packed_.leave(head.place);
  }

  Status status() const {
    OCTET_TRY(k_.status());
    OCTET_TRY(v_.status());
    return q_ ? q_->status() : Status{};
  }

 private:
  static OperandRecipes recipes_of(const AttentionDesc& d, const AttentionArgs& args) {
    OperandRecipes recipes = operand_recipes(d);
    recipes.k.anchor = args.k_anchor;
    return recipes;
  }
  static AttentionArgs ready(const Plan& plan, const AttentionArgs& args) {
    AttentionArgs ready = args;
    ready.k = placed(plan.k.layout, args.workspace), ready.v = placed(plan.v.layout, args.workspace);
    if (plan.q.is_made()) ready.q = placed(plan.q.layout, args.workspace);
    ready.workspace = static_cast<std::byte*>(args.workspace) + plan.kernel_offset;
    return ready;
  }

  PackedHeadIndex index(std::int64_t i) const {
    const std::int64_t sequence = i / heads_;
    return {sequence, i - sequence * heads_, i};
  }

  /// next: the keys that are read after V.
  void pack(const PackedHeadIndex& index, const quant::Tokens& next) {
    const std::int64_t sequence = index.sequence, head = index.kv_head;
    const quant::Tokens next_v = v_.ahead(sequence, head);
    const KeyPacker::Packed packed = packer_->packed(index);
    if (packed.k.data && k_.packs(packed.k) && v_.packs(packed.v)) {
      k_.run(sequence, head, {0, packed.k}, next_v);
      v_.run(sequence, head, {0, packed.v}, next);
      const std::int64_t columns = (keys_.length(sequence) + packed.k.tokens - 1) / packed.k.tokens;
      return packer_->pack(index, {0, 0, columns * packed.k.tokens});
    }
    const std::int64_t place = rows_.take();
    const auto shift_of = [&](const TensorView& codes) -> std::int64_t {
      if (keys_.cu_seqlens) return 0;  // sequences of a head lie one after the other
      return row_offset(codes, place / heads_, place % heads_, 0) - row_offset(codes, sequence, head, 0);
    };
    const HeadCodes codes{shift_of(ready_.k.codes), shift_of(ready_.v.codes), 0};
    k_.run(sequence, head, {codes.k_shift, {}}, next_v);
    v_.run(sequence, head, {codes.v_shift, {}}, next);
    packer_->pack(index, codes);
    rows_.leave(place);
  }

  const OperandRecipes recipes_;
  const Sequences keys_, queries_;
  const std::int64_t heads_, group_;
  const AttentionArgs ready_;
  quant::HeadQuantizer k_, v_;
  std::optional<quant::HeadQuantizer> q_;
  const std::unique_ptr<KeyPacker> packer_;
  Places rows_, packed_;  // of codes as rows, and of what is packed
};

/// Whether one thread gains by going head by head: shorter heads take it from the quantisers' code to the
/// kernel's and back too often (Zen 5: with 49 keys of 32 channels calls take 3 % longer, with 197 of 64 as
/// long, with 1,024 of 64 and of 128 2 to 4 % less). Several threads always do, for they meet once in a call
/// (two: 9 to 27 % less).
bool is_long(const Plan& plan) {
  constexpr std::int64_t kLeastBytes = 16 * 1024;
  return head_code_bytes(plan) >= kLeastBytes;
}

}  // namespace

Status pack_by_head(const Plan& plan, const AttentionArgs& args) {
  Heads heads(plan, args);
  for_each_parallel(args.parallel_for, heads.count(), [&](std::int64_t i) { heads.pack(i); });
  return heads.status();
}

Result<bool> attend_by_head(const Plan& plan, const AttentionArgs& args) {
  const AttentionDesc& d = plan.desc;
  // Packed sequences differ: the heads of each are alike.
  const std::int64_t alike = d.heads_kv * (d.sequences > 0 ? 1 : d.batch);
  if (shifts_lse(d) || !fills_threads(args.parallel_for, alike)) return false;
  if (!is_long(plan) && threads_of(args.parallel_for, alike) == 1) return false;
  Heads heads(plan, args);
  if (!heads.begin_attending()) return false;
  for_each_parallel(args.parallel_for, heads.count(), [&](std::int64_t i) { heads.attend(i); });
  OCTET_TRY(heads.status());
  return true;
}

}  // namespace octet::capi
