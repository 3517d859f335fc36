// K and V kept across calls: what may be appended to, how a token becomes codes that later ones never change,
// and the calls against it.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/kv_store.h"
#include "base/try.h"
#include "capi/guard.h"
#include "capi/plan_handle.h"
#include "capi/prepass.h"
#include "core/names.h"
#include "core/schemes.h"
#include "octet/abi.hpp"
#include "octet/dtype.hpp"
#include "quant/scales.h"
#include "quant/smooth.h"

using namespace octet;

struct octet_kv_cache {
  Plan plan;                     ///< the problem that it was made for; tokens_k is the capacity
  capi::OperandRecipes recipes;  ///< as the plan's, with what is fixed for good
  TensorView anchor;             ///< f32 [batch, kv head, 1, dim] in `anchors`; data null: not smoothed
  std::vector<float> anchors;    ///< what K is shifted by
  bool first_key_is_anchor = false;
  std::vector<float>
      v_largest;  ///< [batch, kv head, token]: the largest scale of V up to there, where tokens have scales
  std::unique_ptr<KvStore> store;
  std::int64_t length = 0;
};

namespace {

/// P carries V's token scales: a token is given at least 2^-20 of the largest scale that its head has had so
/// far, or a zero token would lose its softmax mass. In a whole tensor the reference is the largest of the
/// token's key block instead, which later tokens may raise.
constexpr int kFloorOctaves = 20;
/// The same before any token has had a scale: the least that P carries (numerics/scaled.h).
constexpr float kFirstFloor = 0x1p-96f;

bool has_scales(GranularitySet set) { return set != 0; }

/// One operand's scales: a token's own, or fixed for good.
Status check_scales(const char* operand, Granularity granularity, float amax) {
  const std::string field = std::string("recipe.") + operand,
                    fixed = std::string("options->") + operand + "_amax";
  const bool whole = granularity == Granularity::head || granularity == Granularity::tensor;
  if (granularity == Granularity::token) {
    if (amax == 0) return {};
    return broken(fixed, amax, "tokens have scales of their own", "leave it 0");
  }
  if (!whole)
    return refused(field, name_of(granularity),
                   "a cache has scales of a token, or fixed ones of the head or the tensor: others change "
                   "with keys that are appended",
                   "plan with token, or with head and " + fixed);
  if (std::isfinite(amax) && amax > 0) return {};
  if (amax == 0)
    return refused(field, name_of(granularity), "a scale of all tokens changes with keys that are appended",
                   "plan with token, or say in " + fixed + " which largest absolute value the scale is for");
  return broken(fixed, amax, "it must be finite and positive",
                "pass the largest absolute value that the codes are to hold");
}

/// Whether what a plan's recipe does to a token depends on that token alone.
Status check_appendable(const AttentionDesc& d, const octet_kv_cache_options& options) {
  const SchemeInfo& info = scheme_info(d.scheme);
  if (d.sequences > 0)
    return refused("sequences", d.sequences, "a cache holds dense batch entries of one length",
                   "plan with a batch, or make one cache a sequence");
  if (takes_codes(d))
    return refused("input", name_of(d.input), "a cache makes the codes itself",
                   "plan with f32, f16 or bf16 input");
  if (d.scheme == Scheme::qattn)
    return refused("scheme", "qattn", "its one scale is shared with q, so that keys cannot be packed before",
                   "choose int8 or int8_full");
  if (d.recipe.smooth == Smooth::mean)
    return refused("recipe.smooth", "mean", "the mean of K changes with keys that are appended",
                   "plan with anchor or none");
  if (d.recipe.equalise == Equalise::on)
    return refused("recipe.equalise", "on",
                   "the exponents of V's channels change with tokens that are appended", "plan with off");
  if (d.scheme == Scheme::integer && d.recipe.v == Granularity::token)
    return refused("recipe.v", "token",
                   "integer holds V's scales to eight octaves of their key block's largest, which later "
                   "tokens may raise",
                   "plan with head and set options->v_amax");
  if (has_scales(info.k_set))
    OCTET_TRY(check_scales("k", d.recipe.k, options.k_amax));
  else if (options.k_amax != 0)
    return broken("options->k_amax", options.k_amax, "the scheme's K has no scales", "leave it 0");
  if (has_scales(info.v_set)) return check_scales("v", d.recipe.v, options.v_amax);
  if (options.v_amax == 0) return {};
  return broken("options->v_amax", options.v_amax, "the scheme's V has no scales", "leave it 0");
}

/// What K is shifted by, or room for its first key.
Status take_anchor(octet_kv_cache& cache, const octet_tensor& given) {
  const AttentionDesc& d = cache.plan.desc;
  const TensorView x = abi::from_c(given);
  if (d.recipe.smooth != Smooth::anchor) {
    if (!x.data) return {};
    return broken("options->k_anchor", "set", "the planned recipe takes none",
                  "leave it unset, or plan with smooth = anchor");
  }
  cache.anchors.resize(static_cast<std::size_t>(d.batch * d.heads_kv * d.head_dim));
  cache.anchor.data = cache.anchors.data();
  cache.anchor.shape = {d.batch, d.heads_kv, 1, d.head_dim};
  cache.anchor.stride = {d.heads_kv * d.head_dim, d.head_dim, d.head_dim, 1};
  cache.first_key_is_anchor = !x.data;
  if (!x.data) return {};
  const std::array<std::int64_t, 4> shape{x.shape[0] == 1 ? 1 : d.batch, d.heads_kv, 1, d.head_dim};
  if (x.shape != shape)
    return broken("options->k_anchor.shape", shape_text(x.shape), "the problem's is " + shape_text(shape),
                  "pass one row a head");
  OCTET_TRY(validate_tensor("options->k_anchor", x, DType::f32, Device::cpu));
  for (std::int64_t i = 0; i < d.batch * d.heads_kv; ++i)
    quant::anchor_shift(x, {i / d.heads_kv, i % d.heads_kv, 0, 1}, x,
                        &cache.anchors[static_cast<std::size_t>(i * d.head_dim)]);
  return {};
}

Result<std::unique_ptr<octet_kv_cache>> make_cache(const octet_plan* plan,
                                                   const octet_kv_cache_options* given) {
  OCTET_TRY(capi::not_null("plan", plan));
  octet_kv_cache_options options{};
  if (given) {
    OCTET_TRY(capi::known_struct("options", given));
    options = *given;
  }
  const AttentionDesc& d = plan->plan.desc;
  OCTET_TRY(check_appendable(d, options));
  if (!plan->plan.make_store)
    return refused("backend", plan->plan.backend, "it keeps no keys across calls",
                   "plan with a SIMD backend, or keep codes of your own");
  auto cache = std::make_unique<octet_kv_cache>();
  cache->plan = plan->plan;
  cache->recipes = capi::operand_recipes(d);
  cache->recipes.k.shared_amax = options.k_amax;
  cache->recipes.v.shared_amax = options.v_amax;
  cache->recipes.v.block_floor_octaves = 0;  // floored() instead
  OCTET_TRY(take_anchor(*cache, options.k_anchor));
  cache->recipes.k.anchor = cache->anchor;
  const std::int64_t tokens = d.batch * d.heads_kv * d.tokens_k;
  if (has_scales(scheme_info(d.scheme).v_set) && d.recipe.v == Granularity::token)
    cache->v_largest.resize(static_cast<std::size_t>(tokens));
  cache->store = cache->plan.make_store(
      d, quant::layout({d.batch, d.heads_kv, d.tokens_k, d.head_dim}, cache->recipes.k, 0),
      quant::layout({d.batch, d.heads_kv, d.tokens_k, d.head_dim_v}, cache->recipes.v, 0));
  return cache;
}

/// Tokens in the scheme's format, with the memory that they are in.
struct Tokens {
  QuantizedTensor tensor;
  std::array<std::vector<std::uint64_t>, 3> memory;  // of 8 bytes: aligned for every format

  explicit Tokens(const TensorView& x, const quant::OperandRecipe& recipe)
      : tensor(quant::layout(x.shape, recipe, 0)) {
    TensorView* const parts[] = {&tensor.codes, &tensor.scales, &tensor.mean};
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (parts[i]->shape == std::array<std::int64_t, 4>{}) continue;
      memory[i].resize(static_cast<std::size_t>(capi::span_bytes(*parts[i]) / 8 + 1));
      parts[i]->data = memory[i].data();
    }
  }
};

/// One token of one head.
TensorView token_of(TensorView x, std::int64_t b, std::int64_t h, std::int64_t t) {
  const std::int64_t offset = b * x.stride[0] + h * x.stride[1] + t * x.stride[2];
  x.data = static_cast<std::byte*>(x.data) + (x.dtype == DType::s4 ? offset / 2 : offset * bytes_of(x.dtype));
  x.shape = {1, 1, 1, x.shape[3]};
  return x;
}

/// Gives every token of V the floor of its scale; v_largest: of the cache from its length on, [batch * kv
/// head][tokens].
Status floor_scales(const octet_kv_cache& cache, const TensorView& x, QuantizedTensor& v,
                    std::vector<float>& v_largest) {
  const std::int64_t heads = x.shape[1], tokens = x.shape[2], capacity = cache.plan.desc.tokens_k;
  v_largest.resize(static_cast<std::size_t>(x.shape[0] * heads * tokens));
  for (std::int64_t i = 0; i < x.shape[0] * heads; ++i) {
    float largest =
        cache.length > 0 ? cache.v_largest[static_cast<std::size_t>(i * capacity + cache.length - 1)] : 0.0f;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const TensorView one = token_of(v.scales, i / heads, i % heads, t);
      float& scale = *static_cast<float*>(one.data);
      const float floor =
          std::max(largest > 0 ? quant::scale_floor(largest, kFloorOctaves) : kFirstFloor, kFirstFloor);
      if (scale < floor) {
        quant::OperandRecipe recipe = cache.recipes.v;
        recipe.shared_amax = recipe.largest_code * floor;
        QuantizedTensor again = v;
        again.codes = token_of(v.codes, i / heads, i % heads, t), again.scales = one;
        OCTET_TRY(quant::quantize(token_of(x, i / heads, i % heads, t), {1, 1, nullptr}, recipe, again, {}));
      } else {
        largest = std::max(largest, scale);
      }
      v_largest[static_cast<std::size_t>(i * tokens + t)] = largest;
    }
  }
  return {};
}

Status check_tokens(const char* argument, const octet_tensor& given, const octet_kv_cache& cache,
                    std::int64_t tokens, std::int64_t dim) {
  const AttentionDesc& d = cache.plan.desc;
  const TensorView x = abi::from_c(given);
  const std::string name = argument;
  if (x.dtype != DType::f32 && x.dtype != DType::f16 && x.dtype != DType::bf16)
    return broken(name + ".dtype",
                  is_valid(EnumKind::dtype, given.dtype) ? name_of(x.dtype) : std::to_string(given.dtype),
                  "a cache is given f32, f16 or bf16", "convert the tensor");
  const std::array<std::int64_t, 4> shape{d.batch, d.heads_kv, tokens, dim};
  if (x.shape != shape)
    return broken(name + ".shape", shape_text(x.shape), "the cache takes " + shape_text(shape),
                  "pass [batch, kv head, token, dim] of the plan that the cache was made with");
  return validate_tensor(name, x, x.dtype, Device::cpu);
}

Status append(octet_kv_cache& cache, const octet_tensor& k_given, const octet_tensor& v_given,
              const ParallelFor& parallel_for) {
  const AttentionDesc& d = cache.plan.desc;
  const std::int64_t tokens = k_given.shape[2];
  if (tokens < 0 || tokens > d.tokens_k - cache.length)
    return broken(
        "k.shape[2]", tokens,
        "the cache holds " + std::to_string(cache.length) + " of " + std::to_string(d.tokens_k) + " tokens",
        "append fewer, truncate it, or plan for more");
  OCTET_TRY(check_tokens("k", k_given, cache, tokens, d.head_dim));
  OCTET_TRY(check_tokens("v", v_given, cache, tokens, d.head_dim_v));
  if (tokens == 0) return {};
  const TensorView k = abi::from_c(k_given), v = abi::from_c(v_given);
  const Sequences sequences{d.batch, tokens, nullptr};

  quant::OperandRecipe k_recipe = cache.recipes.k;
  const bool needs_anchor = cache.first_key_is_anchor && cache.length == 0;
  if (needs_anchor) k_recipe.anchor = {};
  Tokens new_k(k, k_recipe), new_v(v, cache.recipes.v);
  OCTET_TRY(quant::quantize(k, sequences, k_recipe, new_k.tensor, parallel_for));
  OCTET_TRY(quant::quantize(v, sequences, cache.recipes.v, new_v.tensor, parallel_for));
  std::vector<float> v_largest;
  if (!cache.v_largest.empty()) OCTET_TRY(floor_scales(cache, v, new_v.tensor, v_largest));

  // Nothing fails from here on.
  if (needs_anchor)
    std::copy_n(static_cast<const float*>(new_k.tensor.mean.data), cache.anchors.size(),
                cache.anchors.data());
  for (std::size_t i = 0; i < v_largest.size(); ++i) {
    const auto head = static_cast<std::int64_t>(i) / tokens, token = static_cast<std::int64_t>(i) % tokens;
    cache.v_largest[static_cast<std::size_t>(head * d.tokens_k + cache.length + token)] = v_largest[i];
  }
  cache.store->append(new_k.tensor, new_v.tensor, cache.length, parallel_for);
  cache.length += tokens;
  return {};
}

bool same(const Recipe& a, const Recipe& b) {
  const bool seeds = a.rotate == Rotate::off || a.rotation_seed == b.rotation_seed;
  return a.q == b.q && a.k == b.k && a.v == b.v && a.smooth == b.smooth && a.rotate == b.rotate &&
         a.equalise == b.equalise && seeds;
}

bool same(const SchemeOptions& a, const SchemeOptions& b) {
  return a.row_sum == b.row_sum && a.table == b.table && a.table_bits == b.table_bits &&
         a.quotient == b.quotient && a.rescale == b.rescale;
}

/// Whether a plan's calls read keys as this cache has them.
Status check_plan(const octet_kv_cache& cache, const Plan& plan) {
  const AttentionDesc &own = cache.plan.desc, &d = plan.desc;
  constexpr auto kRemedy =
      "plan as the cache's plan was made; masks, bias, tokens_q, heads_q, input, output and wants_lse are "
      "free";
  const auto differs = [&](const char* field, const auto& value, const auto& wanted) {
    return broken(std::string("plan's ") + field, value, std::string("the cache's is ") + text_of(wanted),
                  kRemedy);
  };
  if (plan.backend != cache.plan.backend) return differs("backend", plan.backend, cache.plan.backend);
  if (d.scheme != own.scheme) return differs("scheme", name_of(d.scheme), name_of(own.scheme));
  if (d.batch != own.batch) return differs("batch", d.batch, own.batch);
  if (d.heads_kv != own.heads_kv) return differs("heads_kv", d.heads_kv, own.heads_kv);
  if (d.tokens_k != own.tokens_k) return differs("tokens_k", d.tokens_k, own.tokens_k);
  if (d.head_dim != own.head_dim) return differs("head_dim", d.head_dim, own.head_dim);
  if (d.head_dim_v != own.head_dim_v) return differs("head_dim_v", d.head_dim_v, own.head_dim_v);
  if (d.key_block != own.key_block) return differs("key_block", d.key_block, own.key_block);
  if (d.sequences != own.sequences) return differs("sequences", d.sequences, own.sequences);
  if (d.softmax_scale != own.softmax_scale)
    return differs("softmax_scale", d.softmax_scale, own.softmax_scale);
  if (!same(d.recipe, own.recipe))
    return broken("plan's recipe", "another", "K and V of the cache were made with its own", kRemedy);
  if (!same(d.options, own.options))
    return broken("plan's options", "others", "constants of the cache were made with its own", kRemedy);
  if (takes_codes(d)) return differs("input", name_of(d.input), name_of(own.input));
  return {};
}

/// The plan for keys that lie in a cache: `tokens` of them, and a workspace for the rest.
Plan cached_plan(const octet_kv_cache& cache, const Plan& plan, capi::CallLayout& layout) {
  Plan cached = plan;
  cached.keys = Plan::Keys::cache;
  cached.kernel_bytes = cache.store->workspace_bytes(plan.desc);
  layout = capi::lay_out(cached);
  return cached;
}

Status attend(const octet_kv_cache& cache, const octet_plan& plan, const AttentionArgs& given) {
  OCTET_TRY(check_plan(cache, plan.plan));
  capi::CallLayout layout;
  Plan cached = cached_plan(cache, plan.plan, layout);
  cached.desc.tokens_k = cache.length;
  OCTET_TRY(validate_args(cached, given, Outputs::attention));
  if (cached.desc.tokens_q == 0) return {};
  AttentionArgs args = given;
  args.k.mean = cache.anchor;
  Result<AttentionArgs> ready = capi::prepare(cached, layout, args, capi::Operands::queries);
  if (!ready.ok()) return ready.status();
  if (cached.kernel_bytes > 0)
    ready.value().workspace = static_cast<std::byte*>(given.workspace) + cached.kernel_offset;
  cache.store->attend(cached.desc, ready.value());
  return {};
}

}  // namespace

extern "C" {

octet_status octet_kv_cache_create(octet_kv_cache** cache, const octet_plan* plan,
                                   const octet_kv_cache_options* options) {
  if (cache) *cache = nullptr;
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("cache", cache));
    Result<std::unique_ptr<octet_kv_cache>> made = make_cache(plan, options);
    if (made.ok()) *cache = made.value().release();
    return made.status();
  });
}

void octet_kv_cache_destroy(octet_kv_cache* cache) { delete cache; }

int64_t octet_kv_cache_length(const octet_kv_cache* cache) { return cache ? cache->length : -1; }
int64_t octet_kv_cache_capacity(const octet_kv_cache* cache) {
  return cache ? cache->plan.desc.tokens_k : -1;
}
int64_t octet_kv_cache_bytes(const octet_kv_cache* cache) {
  if (!cache) return -1;
  return cache->store->bytes() +
         static_cast<int64_t>((cache->anchors.size() + cache->v_largest.size()) * sizeof(float));
}

octet_status octet_kv_cache_append(octet_kv_cache* cache, const octet_tensor* k, const octet_tensor* v,
                                   const octet_parallel_for* parallel_for) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("cache", cache));
    OCTET_TRY(capi::not_null("k", k));
    OCTET_TRY(capi::not_null("v", v));
    return append(*cache, *k, *v, parallel_for ? abi::from_c(*parallel_for) : ParallelFor{});
  });
}

octet_status octet_kv_cache_truncate(octet_kv_cache* cache, int64_t length) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("cache", cache));
    if (length < 0 || length > cache->length)
      return broken("length", length, "the cache holds " + std::to_string(cache->length) + " tokens",
                    "pass 0 to that number");
    if (length < cache->length) cache->store->truncate(cache->length, length);
    cache->length = length;
    return {};
  });
}

int64_t octet_kv_cache_workspace_bytes(const octet_kv_cache* cache, const octet_plan* plan) {
  int64_t bytes = -1;
  const octet_status status = capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("cache", cache));
    OCTET_TRY(capi::not_null("plan", plan));
    OCTET_TRY(check_plan(*cache, plan->plan));
    capi::CallLayout layout;
    bytes = cached_plan(*cache, plan->plan, layout).workspace_bytes;
    return {};
  });
  return status == OCTET_OK ? bytes : -1;
}

octet_status octet_kv_cache_attend(const octet_kv_cache* cache, const octet_plan* plan,
                                   const octet_attention_args* args) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("cache", cache));
    OCTET_TRY(capi::not_null("plan", plan));
    OCTET_TRY(capi::known_struct("args", args));
    return attend(*cache, *plan, abi::from_c(*args));
  });
}

}  // extern "C"
