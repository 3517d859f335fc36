#include "tests/attention/harness.h"

#include <algorithm>
#include <numbers>
#include <random>

#include "numerics/formats.h"
#include "quant/quantize.h"
#include "ref/reference.h"

namespace octet::testing {
namespace {

std::int64_t elements(const TensorView& x) { return x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3]; }

/// Inputs rounded to f16, as a model would hand them over. Own transforms of the engine's bits: those of
/// <random> differ from library to library.
std::vector<float> random_values(const Case& c, std::int64_t count, std::mt19937_64& bits) {
  const auto unit = [&] { return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53; };  // in (0, 1)
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) {
    const double u = unit();
    const double real = c.data == Data::u4
                            ? 8 * u - 4
                            : std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * unit());
    value = round_to_f16(static_cast<float>(real) * c.scale);
  }
  return x;
}

/// Memory of a quantised operand.
struct Quantised {
  QuantizedTensor tensor;
  std::vector<std::int8_t> codes;  // bytes of any format
  std::vector<float> scales, mean;
  std::vector<std::int32_t> exponents;

  Quantised(const TensorView& x, const Sequences& sequences, const quant::OperandRecipe& recipe) {
    tensor = quant::layout(x.shape, recipe, sequences.cu_seqlens ? sequences.count : 0);
    constexpr std::int64_t kWidest = 8;  // bytes of f64
    codes.resize(static_cast<std::size_t>(kWidest * (elements(tensor.codes) + tensor.codes.shape[2])));
    tensor.codes.data = codes.data();
    hold(tensor.scales, scales), hold(tensor.mean, mean), hold(tensor.channel_exponent, exponents);
    status = quant::quantize(x, sequences, recipe, tensor, {});
  }
  Quantised(const Quantised&) = delete;
  Quantised& operator=(const Quantised&) = delete;

  Status status;

 private:
  template <class T>
  static void hold(TensorView& view, std::vector<T>& memory) {
    memory.resize(static_cast<std::size_t>(elements(view)));
    view.data = memory.empty() ? nullptr : memory.data();
  }
};

float largest_magnitude(const Inputs& in) {
  float peak = 0;
  for (const std::vector<float>* x : {&in.q, &in.k, &in.v}) {
    for (float value : *x) peak = std::max(peak, magnitude(value));
  }
  return peak;
}

/// How a scheme wants one operand: its format and granularity, and what is special to a scheme.
quant::OperandRecipe operand_recipe(const AttentionDesc& d, DType format, Granularity granularity,
                                    const Inputs& in) {
  quant::OperandRecipe r;
  r.format = format, r.granularity = granularity, r.block = d.key_block;
  r.largest_code = largest_code(format);
  r.rotation_seed = d.recipe.rotation_seed;
  if (d.scheme == Scheme::qattn) r.largest_code = 127.5f, r.shared_amax = largest_magnitude(in);
  return r;
}

/// V's, with the floors under its token scales.
quant::OperandRecipe v_recipe_of(const AttentionDesc& d, DType format, const Inputs& in) {
  quant::OperandRecipe r = operand_recipe(d, format, d.recipe.v, in);
  r.equalise = d.recipe.equalise;
  if (d.scheme == Scheme::int8 || d.scheme == Scheme::int8_shift || d.scheme == Scheme::int4) {
    r.block_floor_octaves = 20;
  }
  const bool v_in_keys = d.recipe.v == Granularity::token || d.recipe.v == Granularity::block;
  if (d.scheme == Scheme::integer && v_in_keys) {
    r.block_floor_octaves = 8, r.rule = quant::ScaleRule::sixteenths;
  }
  return r;
}

}  // namespace

Case self_attention(Scheme scheme, std::int64_t heads, std::int64_t tokens, std::int64_t dim) {
  Case c;
  c.desc.scheme = scheme;
  c.desc.heads_q = c.desc.heads_kv = heads;
  c.desc.tokens_q = c.desc.tokens_k = tokens;
  c.desc.head_dim = c.desc.head_dim_v = dim;
  c.desc.softmax_scale = 1.0f / std::sqrt(static_cast<float>(dim));
  c.desc.recipe = scheme_info(scheme).recipe;
  c.desc.wants_lse = true;
  return c;
}

Error Outcome::error() const {
  Error e;
  for (std::size_t i = 0; i < o.size(); ++i) {
    e.signal += exact[i] * exact[i];
    e.noise += (o[i] - exact[i]) * (o[i] - exact[i]);
  }
  return e;
}

Inputs random_inputs(const Case& c) {
  const AttentionDesc& d = c.desc;
  std::mt19937_64 bits(c.seed);
  Inputs in;
  in.q = random_values(c, d.batch * d.heads_q * d.tokens_q * d.head_dim, bits);
  in.k = random_values(c, d.batch * d.heads_kv * d.tokens_k * d.head_dim, bits);
  in.v = random_values(c, d.batch * d.heads_kv * d.tokens_k * d.head_dim_v, bits);
  return in;
}

float largest_code(DType format) {
  switch (format) {
    case DType::s4:
      return 7;
    case DType::e4m3:
      return kE4M3Max;
    case DType::e5m2:
      return kE5M2Max;
    default:
      return 127;
  }
}

Outcome run(const Case& c, const Inputs& in) {
  AttentionDesc d = c.desc;
  const SchemeInfo& info = scheme_info(d.scheme);
  AttentionArgs plain;
  const auto view = [](const std::vector<float>& x, std::int64_t b, std::int64_t h, std::int64_t t,
                       std::int64_t dim) {
    return view_of(const_cast<float*>(x.data()), DType::f32, b, h, t, dim);
  };
  plain.q.codes = view(in.q, d.batch, d.heads_q, d.tokens_q, d.head_dim);
  plain.k.codes = view(in.k, d.batch, d.heads_kv, d.tokens_k, d.head_dim);
  plain.v.codes = view(in.v, d.batch, d.heads_kv, d.tokens_k, d.head_dim_v);
  if (!c.bias.empty()) {
    d.bias = AttentionDesc::Bias::additive;
    plain.bias = view(c.bias, 1, d.heads_q, d.tokens_q, d.tokens_k);
  }
  if (!c.cu_seqlens_q.empty()) {
    d.sequences = static_cast<std::int64_t>(c.cu_seqlens_q.size()) - 1;
    plain.cu_seqlens_q = c.cu_seqlens_q.data(), plain.cu_seqlens_k = c.cu_seqlens_k.data();
  }
  const std::int64_t count = d.sequences > 0 ? d.sequences : d.batch;
  const Sequences q_sequences{count, d.tokens_q, plain.cu_seqlens_q};
  const Sequences k_sequences{count, d.tokens_k, plain.cu_seqlens_k};

  quant::OperandRecipe q_recipe = operand_recipe(d, info.qk, d.recipe.q, in);
  q_recipe.rotate = d.recipe.rotate;
  quant::OperandRecipe k_recipe = operand_recipe(d, info.qk, d.recipe.k, in);
  k_recipe.rotate = d.recipe.rotate, k_recipe.smooth = d.recipe.smooth;
  const quant::OperandRecipe v_recipe = v_recipe_of(d, info.v, in);
  const Quantised q(plain.q.codes, q_sequences, q_recipe), k(plain.k.codes, k_sequences, k_recipe),
      v(plain.v.codes, k_sequences, v_recipe);

  const std::int64_t rows = d.batch * d.heads_q * d.tokens_q;
  Outcome result;
  result.o.resize(static_cast<std::size_t>(rows * d.head_dim_v)), result.exact.resize(result.o.size());
  result.lse.resize(static_cast<std::size_t>(rows)), result.exact_lse.resize(result.lse.size());
  AttentionArgs coded = plain;
  coded.q = q.tensor, coded.k = k.tensor, coded.v = v.tensor;
  if (c.tamper) c.tamper(coded);
  coded.o = view_of(result.o.data(), DType::f32, d.batch, d.heads_q, d.tokens_q, d.head_dim_v);
  coded.lse = view_of(result.lse.data(), DType::f32, d.batch, d.heads_q, d.tokens_q, 1);
  plain.o = view_of(result.exact.data(), DType::f64, d.batch, d.heads_q, d.tokens_q, d.head_dim_v);
  plain.lse = view_of(result.exact_lse.data(), DType::f32, d.batch, d.heads_q, d.tokens_q, 1);

  AttentionDesc exact = d;
  exact.scheme = Scheme::exact;
  result.bound.resize(result.o.size());
  const TensorView bound =
      view_of(result.bound.data(), DType::f32, d.batch, d.heads_q, d.tokens_q, d.head_dim_v);
  const bool ran = q.status.ok() && k.status.ok() && v.status.ok() && ref::attend(d, coded).ok() &&
                   ref::attend(exact, plain).ok() && ref::error_bound(d, plain, coded, bound).ok();
  if (!ran) std::fill(result.o.begin(), result.o.end(), std::nanf(""));  // no test passes on it
  return result;
}

Outcome run(const Case& c) { return run(c, random_inputs(c)); }

Error pooled(Case c, int seeds) {
  Error total;
  for (int s = 1; s <= seeds; ++s) {
    c.seed = static_cast<std::uint64_t>(s);
    total.add(run(c).error());
  }
  return total;
}

}  // namespace octet::testing
