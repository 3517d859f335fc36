// K and V kept across calls: what may be appended to, and the calls against it.
#include <cmath>
#include <memory>

#include "base/try.h"
#include "capi/guard.h"
#include "capi/kept_keys.h"
#include "capi/plan_handle.h"
#include "core/names.h"
#include "core/schemes.h"
#include "octet/abi.hpp"
#include "octet/dtype.hpp"

using namespace octet;

struct octet_kv_cache {
  Plan plan;  ///< the problem that it was made for; tokens_k is the capacity
  std::unique_ptr<capi::KeptKeys> keys;
  std::int64_t length = 0;
  void* stream = nullptr;  ///< of appends, on a GPU
};

namespace {

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

/// The anchor that a cache is made with.
Status check_anchor(const AttentionDesc& d, const TensorView& x) {
  if (!x.data) return {};
  if (d.recipe.smooth != Smooth::anchor)
    return broken("options->k_anchor", "set", "the planned recipe takes none",
                  "leave it unset, or plan with smooth = anchor");
  const std::array<std::int64_t, 4> shape{x.shape[0] == 1 ? 1 : d.batch, d.heads_kv, 1, d.head_dim};
  if (x.shape != shape)
    return broken("options->k_anchor.shape", shape_text(x.shape), "the problem's is " + shape_text(shape),
                  "pass one row a head");
  return validate_tensor("options->k_anchor", x, DType::f32, d.device);
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
  const TensorView anchor = abi::from_c(options.k_anchor);
  OCTET_TRY(check_anchor(d, anchor));
  const bool on_device = d.device == Device::cuda;
  if (!on_device && !plan->plan.make_store)
    return refused("backend", plan->plan.backend, "it keeps no keys across calls",
                   "plan with a SIMD backend, or keep codes of your own");
  auto cache = std::make_unique<octet_kv_cache>();
  cache->plan = plan->plan;
  const capi::OperandRecipes recipes = capi::operand_recipes(d);
  capi::KeptProblem problem{cache->plan, recipes.k, recipes.v, anchor};
  problem.k.shared_amax = options.k_amax, problem.v.shared_amax = options.v_amax;
  problem.v.block_floor_octaves = 0;  // KeptKeys has floors of its own
  Result<std::unique_ptr<capi::KeptKeys>> keys =
      on_device ? capi::keep_on_device(problem) : capi::keep_on_host(problem);
  OCTET_TRY(keys.status());
  cache->keys = keys.take();
  return cache;
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
  return validate_tensor(name, x, x.dtype, d.device);
}

Status check_new_tokens(const octet_kv_cache& cache, const octet_tensor& k, const octet_tensor& v) {
  const AttentionDesc& d = cache.plan.desc;
  const std::int64_t tokens = k.shape[2];
  if (tokens < 0 || tokens > d.tokens_k - cache.length)
    return broken(
        "k.shape[2]", tokens,
        "the cache holds " + std::to_string(cache.length) + " of " + std::to_string(d.tokens_k) + " tokens",
        "append fewer, truncate it, or plan for more");
  OCTET_TRY(check_tokens("k", k, cache, tokens, d.head_dim));
  return check_tokens("v", v, cache, tokens, d.head_dim_v);
}

Status append(octet_kv_cache& cache, const octet_tensor& k, const octet_tensor& v,
              const ParallelFor& parallel_for) {
  OCTET_TRY(check_new_tokens(cache, k, v));
  const std::int64_t tokens = k.shape[2];
  if (tokens == 0) return {};
  OCTET_TRY(cache.keys->append(abi::from_c(k), abi::from_c(v), cache.length, {parallel_for, cache.stream}));
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

/// A call against so many keys of a cache, with a workspace for all but them.
capi::KeptKeys::Call call_of(const octet_kv_cache& cache, const Plan& plan, std::int64_t tokens,
                             const AttentionArgs& args) {
  capi::KeptKeys::Call call{plan, {}, args};
  call.plan.keys = Plan::Keys::cache;
  call.plan.kernel_bytes = cache.keys->workspace_bytes(plan.desc);
  call.layout = capi::lay_out(call.plan);
  call.plan.desc.tokens_k = tokens;
  return call;
}

Status attend(const octet_kv_cache& cache, const octet_plan& plan, const AttentionArgs& args) {
  OCTET_TRY(check_plan(cache, plan.plan));
  const capi::KeptKeys::Call call = call_of(cache, plan.plan, cache.length, args);
  OCTET_TRY(validate_args(call.plan, args, Outputs::attention));
  return call.plan.desc.tokens_q == 0 ? Status{} : cache.keys->attend(call);
}

Status step(octet_kv_cache& cache, const octet_tensor& k, const octet_tensor& v, const octet_plan& plan,
            const AttentionArgs& args) {
  OCTET_TRY(check_new_tokens(cache, k, v));
  OCTET_TRY(check_plan(cache, plan.plan));
  const std::int64_t tokens = k.shape[2];
  const capi::KeptKeys::Call call = call_of(cache, plan.plan, cache.length + tokens, args);
  OCTET_TRY(validate_args(call.plan, args, Outputs::attention));
  if (tokens == 0) return attend(cache, plan, args);
  if (call.plan.desc.tokens_q == 0) {
    OCTET_TRY(
        cache.keys->append(abi::from_c(k), abi::from_c(v), cache.length, {args.parallel_for, args.stream}));
  } else {
    OCTET_TRY(cache.keys->step(abi::from_c(k), abi::from_c(v), cache.length, call));
  }
  cache.length += tokens;
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
int64_t octet_kv_cache_bytes(const octet_kv_cache* cache) { return cache ? cache->keys->bytes() : -1; }

octet_status octet_kv_cache_set_stream(octet_kv_cache* cache, void* stream) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("cache", cache));
    if (stream && cache->plan.device == Device::cpu)
      return broken("stream", "set", "the cache is of a plan on the CPU", "pass NULL");
    cache->stream = stream;
    return {};
  });
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
    if (length < cache->length) OCTET_TRY(cache->keys->truncate(cache->length, length, {{}, cache->stream}));
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
    bytes = call_of(*cache, plan->plan, cache->length, {}).plan.workspace_bytes;
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

octet_status octet_kv_cache_step(octet_kv_cache* cache, const octet_tensor* k, const octet_tensor* v,
                                 const octet_plan* plan, const octet_attention_args* args) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("cache", cache));
    OCTET_TRY(capi::not_null("k", k));
    OCTET_TRY(capi::not_null("v", v));
    OCTET_TRY(capi::not_null("plan", plan));
    OCTET_TRY(capi::known_struct("args", args));
    return step(*cache, *k, *v, *plan, abi::from_c(*args));
  });
}

}  // extern "C"
