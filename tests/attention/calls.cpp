#include "tests/attention/calls.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bits.h"
#include "core/schemes.h"
#include "numerics/formats.h"
#include "ref/schemes.h"

namespace octet::testing {

Tensor::Tensor(std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t d, Layout layout)
    : shape_{b, h, t, d} {
  const std::int64_t gap = layout == Layout::gapped ? 3 : 0;
  const std::int64_t row = d + gap;
  stride_ = layout == Layout::bshd
                ? std::array<std::int64_t, 4>{t * h * row, row, h * row, 1}
                : std::array<std::int64_t, 4>{h * (t + gap) * row, (t + gap) * row, row, 1};
  memory_.assign(static_cast<std::size_t>(2 * kMargin + b * h * (t + gap) * row),
                 std::numeric_limits<float>::quiet_NaN());
}

void Tensor::fill_normal(Random& random) {
  each([&](float& x, auto...) { x = static_cast<float>(random.normal()); });
}

bool Tensor::intact() const {
  Tensor copy = *this;
  copy.each([](float& x, auto...) { x = std::numeric_limits<float>::quiet_NaN(); });
  for (float x : copy.memory_) {
    if (!std::isnan(x)) return false;
  }
  return true;
}

Call normal_call(std::int64_t b, std::int64_t heads, std::int64_t m, std::int64_t n, std::int64_t d,
                 std::uint64_t seed) {
  Random random(seed);
  Call call;
  call.q = Tensor(b, heads, m, d), call.k = Tensor(b, heads, n, d), call.v = Tensor(b, heads, n, d);
  for (Tensor* x : {&call.q, &call.k, &call.v}) x->fill_normal(random);
  return call;
}

namespace {

/// A tensor of a call as its numbers lie in memory: f32 as they are, f16 and bf16 in memory of their own,
/// with the same margins and gaps.
class Stored {
 public:
  Stored(Tensor& x, DType dtype) : x_(x), dtype_(dtype) {
    if (dtype == DType::f32) return;
    for (const float value : x.memory())
      narrow_.push_back(dtype == DType::f16 ? f16_from_f32(value) : bf16_from_f32(value));
  }
  TensorView view() {
    TensorView view = x_.view();
    if (dtype_ != DType::f32) view.data = narrow_.data() + Tensor::kMargin, view.dtype = dtype_;
    return view;
  }
  /// What lies there now, into the tensor.
  void read_back() {
    for (std::size_t i = 0; i < narrow_.size(); ++i)
      x_.memory()[i] = dtype_ == DType::f16 ? f32_from_f16(narrow_[i]) : f32_from_bf16(narrow_[i]);
  }

 private:
  Tensor& x_;
  DType dtype_;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace

Output with_problem(const Call& call, Scheme scheme,
                    const std::function<Status(const AttentionDesc&, const AttentionArgs&)>& work) {
  Output out;
  out.o = Tensor(call.q.size(0), call.q.size(1), call.q.size(2), call.v.size(3), call.output_layout);
  out.lse = Tensor(call.q.size(0), call.q.size(1), call.q.size(2), 1);
  Tensor inputs[] = {call.q, call.k, call.v};
  Stored q(inputs[0], call.storage), k(inputs[1], call.storage), v(inputs[2], call.storage),
      o(out.o, call.storage);
  AttentionArgs args;
  args.q.codes = q.view(), args.k.codes = k.view(), args.v.codes = v.view();
  args.o = o.view(), args.lse = out.lse.view();
  Result<AttentionDesc> described = describe(scheme, args.q.codes, args.k.codes, args.v.codes);
  if (!described.ok()) return out.status = described.status(), out;
  AttentionDesc desc = described.take();
  desc.output = call.storage;
  desc.mask = call.options.mask, desc.wants_lse = true;
  desc.window_left = call.options.window_left, desc.window_right = call.options.window_right;
  desc.key_block = call.options.key_block, desc.options = call.options.scheme_options;
  if (call.options.softmax_scale) desc.softmax_scale = *call.options.softmax_scale;
  if (call.options.recipe) desc.recipe = *call.options.recipe;
  if (call.bias.size(3) > 0) {
    desc.bias = AttentionDesc::Bias::additive, args.bias = call.bias.view();
  } else if (!call.mask.empty()) {
    desc.bias = AttentionDesc::Bias::boolean;
    args.bias = view_bhsd(call.mask.data(), DType::boolean, {1, 1, call.q.size(2), call.k.size(2)});
  } else if (call.any_bias.data) {
    desc.bias =
        call.any_bias.dtype == DType::boolean ? AttentionDesc::Bias::boolean : AttentionDesc::Bias::additive;
    args.bias = call.any_bias;
  }
  if (!call.cu_q.empty()) {
    desc.sequences = static_cast<std::int64_t>(call.cu_q.size()) - 1;
    args.cu_seqlens_q = call.cu_q.data(), args.cu_seqlens_k = call.cu_k.data();
  }
  out.status = work(desc, args);
  o.read_back();
  return out;
}

namespace {

/// Plans a call with a scheme, gives it a workspace and calls `work(plan, args)`, which fills o and lse.
template <class Work>
Output with_plan(const Call& call, Scheme scheme, Work&& work) {
  return with_problem(call, scheme, [&](const AttentionDesc& desc, AttentionArgs args) -> Status {
    Result<AttentionPlan> plan = AttentionPlan::create(desc, call.options.backend);
    if (!plan.ok()) return plan.status();
    Result<Workspace> workspace = Workspace::allocate(plan.value().workspace_bytes());
    if (!workspace.ok()) return workspace.status();
    args.workspace = workspace.value().data(), args.workspace_bytes = workspace.value().bytes();
    return work(plan.value(), args);
  });
}

}  // namespace

Output run(const Call& call, Scheme scheme) {
  return with_plan(call, scheme,
                   [](const AttentionPlan& plan, const AttentionArgs& args) { return plan.run(args); });
}

Output error_bound(const Call& call, Scheme scheme) {
  return with_plan(call, scheme, [](const AttentionPlan& plan, const AttentionArgs& args) {
    return plan.error_bound(args, args.o);
  });
}

double relative_error(const Tensor& o, const Tensor& exact) {
  double signal = 0, noise = 0;
  Tensor copy = exact;
  copy.each([&](float& e, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
    signal += double{e} * e;
    noise += (double{o.at(b, h, t, c)} - e) * (double{o.at(b, h, t, c)} - e);
  });
  const double error = noise == 0 ? 0 : std::sqrt(noise / signal);
  return std::isfinite(error) ? error : 1e9;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  Tensor copy = a;
  copy.each([&](float& x, std::int64_t i, std::int64_t h, std::int64_t t, std::int64_t c) {
    const float y = b.at(i, h, t, c);
    const double difference = x == y ? 0 : std::abs(double{x} - y);
    largest = std::isfinite(difference) ? std::max(largest, difference) : 1e9;
  });
  return largest;
}

double largest_size(const Tensor& x) {
  double largest = 0;
  Tensor copy = x;
  copy.each([&](float& value, auto...) {
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(double{value}));
  });
  return largest;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  bool same = true;
  Tensor copy = a;
  copy.each([&](float& x, std::int64_t i, std::int64_t h, std::int64_t t, std::int64_t c) {
    same &= bits_of(x) == bits_of(b.at(i, h, t, c));
  });
  return same;
}

std::vector<Scheme> schemes() {
  std::vector<Scheme> all;
  for (const SchemeInfo& info : all_schemes()) {
    if (info.scheme != Scheme::exact && ref::attend_of(info.scheme)) all.push_back(info.scheme);
  }
  return all;
}

Tolerance tolerance(Scheme scheme) {
  switch (scheme) {
    case Scheme::f32:
      return {2e-6, 1e-5};
    case Scheme::f16:
    case Scheme::standard:
      return {2e-3, 5e-3};
    case Scheme::bf16:
      return {1.5e-2, 3e-2};
    case Scheme::int8:
    case Scheme::int8_half:
      return {3e-2, 5e-2};
    case Scheme::int8_shift:  // the chord is 4 % high on average, at most 6.15 %: both enter the LSE
      return {7e-2, 0.12};
    case Scheme::int8_full:
    case Scheme::int8_lut:
    case Scheme::int8_fp8:
    case Scheme::integer:
      return {7e-2, 0.1};
    case Scheme::qattn:
      return {0.15, 0.2};
    case Scheme::ibert:  // steps of 1/256 of a whole row's weight, cut off
      return {0.5, 0.2};
    case Scheme::ivit:  // steps of 1/128, cut off, and an exponent base up to 20 % off
      return {0.95, 1.5};
    case Scheme::fp8:
    case Scheme::fp8_hybrid:
      return {0.12, 0.3};
    case Scheme::int4:  // steps of 1/7 of a token's largest number in Q and K
      return {0.5, 1.0};
    default:  // qflash (output codes of V's scale), fqvit (P a power of two)
      return {0.6, 1.5};
  }
}

std::int64_t many_keys(Scheme scheme) { return scheme == Scheme::ivit || scheme == Scheme::ibert ? 40 : 300; }

}  // namespace octet::testing
