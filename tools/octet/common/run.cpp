#include "common/run.h"

#include <chrono>

#include "common/real.h"
#include "common/recipe_text.h"
#include "common/sentence.h"

namespace octet::tool {
namespace {

using Axes = std::array<std::int64_t, 4>;

struct Placed {
  HostTensor tensor;
  TensorView view;
};

/// Zeros for [batch, heads, tokens, dim], in memory in the order of the layout.
Result<Placed> make_tensor(DType dtype, const Axes& s, Layout layout) {
  const bool bhsd = layout == Layout::bhsd;
  Result<HostTensor> made = make_host_tensor(dtype, {s[0], bhsd ? s[1] : s[2], bhsd ? s[2] : s[1], s[3]});
  if (!made.ok()) return made.status();
  Placed placed{made.take(), {}};
  placed.view = bhsd ? view_bhsd(placed.tensor.bytes.data(), dtype, s)
                     : view_bshd(placed.tensor.bytes.data(), dtype, s);
  return placed;
}

/// One f32 for each query row: [batch, heads, tokens] whatever the layout.
Result<Placed> make_rows(const AttentionDesc& d) {
  Result<Placed> made = make_tensor(DType::f32, {d.batch, d.heads_q, d.tokens_q, 1}, Layout::bhsd);
  if (made.ok()) made.value().tensor.shape.pop_back();
  return made;
}

AttentionArgs arguments(const Prepared& prepared, const ProblemInput& input, Threads& threads) {
  AttentionArgs args;
  args.q.codes = input.q, args.k.codes = input.k, args.v.codes = input.v;
  args.bias = input.mask;
  args.cu_seqlens_q = input.cu_seqlens_q, args.cu_seqlens_k = input.cu_seqlens_k;
  args.workspace = prepared.workspace.data(), args.workspace_bytes = prepared.workspace.bytes();
  args.parallel_for = threads.parallel_for();
  return args;
}

std::int64_t offset(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t m) {
  return b * x.stride[0] + h * x.stride[1] + m * x.stride[2];
}

}  // namespace

Result<Prepared> prepare(const AttentionDesc& desc, const std::string& backend) {
  Result<AttentionPlan> plan = AttentionPlan::create(desc, backend);
  if (!plan.ok()) return plan.status();
  Result<Workspace> workspace = Workspace::allocate(plan.value().workspace_bytes());
  if (!workspace.ok()) return workspace.status();
  return Prepared{plan.take(), workspace.take(), desc};
}

Result<Output> attend(const Prepared& prepared, const ProblemInput& input, Threads& threads) {
  const AttentionDesc& d = prepared.desc;
  Output output;
  AttentionArgs args = arguments(prepared, input, threads);
  Result<Placed> o = make_tensor(d.output, {d.batch, d.heads_q, d.tokens_q, d.head_dim_v}, input.layout);
  if (!o.ok()) return o.status();
  output.o = std::move(o.value().tensor), args.o = output.view = o.value().view;
  if (d.wants_lse) {
    Result<Placed> lse = make_rows(d);
    if (!lse.ok()) return lse.status();
    output.lse = std::move(lse.value().tensor), args.lse = output.lse_view = lse.value().view;
  }
  if (d.output == DType::s8) {
    Result<Placed> scale = make_rows(d);
    if (!scale.ok()) return scale.status();
    output.o_scale = std::move(scale.value().tensor), args.o_scale = output.o_scale_view = scale.value().view;
  }
  threads.announce(std::string("attending in ") + name_of(d.scheme));
  const auto start = std::chrono::steady_clock::now();
  if (Status s = prepared.plan.run(args); !s.ok()) return s;
  output.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return output;
}

AttentionDesc exact_desc(const AttentionDesc& desc) {
  AttentionDesc exact = desc;
  exact.scheme = Scheme::exact;
  exact.output = DType::f64;
  exact.recipe = abi::from_c(info_of(Scheme::exact).recipe);
  exact.options = {};
  return exact;
}

Result<Output> attend_exactly(const AttentionDesc& desc, const ProblemInput& input, Threads& threads) {
  Result<Prepared> prepared = prepare(exact_desc(desc), {});
  if (!prepared.ok()) return prepared.status();
  return attend(prepared.value(), input, threads);
}

Result<std::optional<Bound>> error_bound(const Prepared& prepared, const ProblemInput& input,
                                         Threads& threads) {
  const AttentionDesc& d = prepared.desc;
  Result<Placed> made = make_tensor(DType::f32, {d.batch, d.heads_q, d.tokens_q, d.head_dim_v}, input.layout);
  if (!made.ok()) return made.status();
  threads.announce(std::string("bounding ") + name_of(d.scheme));
  const Status status = prepared.plan.error_bound(arguments(prepared, input, threads), made.value().view);
  if (status.code() == Code::unsupported) return std::optional<Bound>();
  if (!status.ok()) return status;
  return std::optional<Bound>(Bound{std::move(made.value().tensor), made.value().view});
}

std::vector<ErrorSums> compare(const Output& output, const Output& exact, const std::optional<Bound>& bound) {
  const TensorView &o = output.view, &e = exact.view;
  std::vector<ErrorSums> sums(static_cast<std::size_t>(o.shape[0]));
  const auto add_row = [&](std::int64_t b, std::int64_t h, std::int64_t m) {
    ErrorSums& to = sums[static_cast<std::size_t>(b)];
    const TensorView& s = output.o_scale_view;
    const double scale = s.data ? real_at(s.data, s.dtype, offset(s, b, h, m)) : 1.0;
    for (std::int64_t c = 0; c < o.shape[3]; ++c) {
      const double value = scale * real_at(o.data, o.dtype, offset(o, b, h, m) + c);
      const double wanted = real_at(e.data, e.dtype, offset(e, b, h, m) + c);
      to.add(value, wanted);
      if (bound)
        to.add_bound(value, wanted,
                     real_at(bound->view.data, bound->view.dtype, offset(bound->view, b, h, m) + c));
    }
  };
  for (std::int64_t b = 0; b < o.shape[0]; ++b) {
    for (std::int64_t h = 0; h < o.shape[1]; ++h) {
      for (std::int64_t m = 0; m < o.shape[2]; ++m) add_row(b, h, m);
    }
  }
  return sums;
}

ErrorSums pooled(const std::vector<ErrorSums>& sums) {
  ErrorSums all;
  for (const ErrorSums& s : sums) all.merge(s);
  return all;
}

Json errors_json(const ErrorSums& sums, bool has_bound) {
  Json json;
  json["relative_rmse"] = sums.relative_rmse();
  json["relative_l1"] = sums.relative_l1();
  json["max_abs_error"] = sums.max_abs_error();
  json["sqnr_db"] = sums.sqnr_db();
  json["cosine"] = sums.cosine();
  json["max_bound"] = has_bound ? Json(sums.largest_bound) : Json(nullptr);
  json["max_error_over_bound"] = has_bound ? Json(sums.largest_ratio) : Json(nullptr);
  return json;
}

}  // namespace octet::tool
