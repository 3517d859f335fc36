// Plans: made, asked and destroyed.
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/try.h"
#include "capi/guard.h"
#include "capi/plan_handle.h"
#include "core/names.h"
#include "core/registry.h"
#include "core/schemes.h"
#include "octet/abi.hpp"

namespace {

using namespace octet;

std::string recipe_text(const AttentionDesc& d) {
  const SchemeInfo& info = scheme_info(d.scheme);
  const auto operand = [](GranularitySet set, Granularity g) {
    return set == 0 ? std::string("no scales") : "per " + name_of(g);
  };
  return "q " + operand(info.q_set, d.recipe.q) + ", k " + operand(info.k_set, d.recipe.k) + ", v " +
         operand(info.v_set, d.recipe.v) + ", smooth " + name_of(d.recipe.smooth) + ", rotate " +
         name_of(d.recipe.rotate) + ", equalise " + name_of(d.recipe.equalise);
}

std::string explain(const Plan& plan) {
  const AttentionDesc& d = plan.desc;
  const SchemeInfo& info = scheme_info(d.scheme);
  std::string text = "kernel: " + plan.kernel + "\nbackend: " + plan.backend +
                     "\nscheme: " + std::string(info.name) + ": " + std::string(info.summary) +
                     "\nformats: q and k " + name_of(info.qk) + ", v " + name_of(info.v) + ", input " +
                     name_of(d.input) + ", output " + name_of(d.output) + "\nrecipe: " + recipe_text(d) +
                     "\nkey block: " + std::to_string(d.key_block) +
                     "\nworkspace: " + std::to_string(plan.workspace_bytes) + " bytes\n";
  for (const Refusal& r : plan.refusals) text += "refused: " + r.kernel + ": " + r.reason + "\n";
  return text;
}

Result<std::unique_ptr<octet_plan>> make(const octet_attention_desc* desc, const char* backend) {
  OCTET_TRY(capi::known_struct("desc", desc));
  if (desc->wants_lse != 0 && desc->wants_lse != 1)
    return broken("wants_lse", desc->wants_lse, "it must be 0 or 1", "pass 1 to get the LSE");
  Result<Plan> made = make_plan(abi::from_c(*desc), backend ? backend : "", kernels());
  if (!made.ok()) return made.status();
  auto handle = std::make_unique<octet_plan>();
  handle->plan = made.take();
  handle->call = capi::lay_out(handle->plan);
  handle->explanation = explain(handle->plan);
  return handle;
}

/// q, k and v as one problem; the shapes' own limits are the plan's to check.
Status check_fit(const octet_tensor& q, const octet_tensor& k, const octet_tensor& v) {
  const auto mismatch = [](const char* argument, std::int64_t value, const char* other, std::int64_t wanted) {
    return broken(argument, value, "that of " + std::string(other) + " is " + std::to_string(wanted),
                  "pass tensors in the order [batch, head, token, dim] of one problem");
  };
  if (k.shape[0] != q.shape[0]) return mismatch("k's batch", k.shape[0], "q", q.shape[0]);
  if (v.shape[0] != q.shape[0]) return mismatch("v's batch", v.shape[0], "q", q.shape[0]);
  if (v.shape[1] != k.shape[1]) return mismatch("v's number of heads", v.shape[1], "k", k.shape[1]);
  if (v.shape[2] != k.shape[2]) return mismatch("v's number of tokens", v.shape[2], "k", k.shape[2]);
  if (k.shape[3] != q.shape[3]) return mismatch("k's dim", k.shape[3], "q", q.shape[3]);
  if (k.dtype == q.dtype && v.dtype == q.dtype) return {};
  return broken(k.dtype == q.dtype ? "v's dtype" : "k's dtype",
                name_of(EnumKind::dtype, k.dtype == q.dtype ? v.dtype : k.dtype),
                "that of q is " + name_of(EnumKind::dtype, q.dtype), "pass q, k and v in one dtype");
}

const Refusal* refusal_at(const octet_plan* plan, int32_t i) {
  if (!plan || i < 0 || static_cast<std::size_t>(i) >= plan->plan.refusals.size()) return nullptr;
  return &plan->plan.refusals[static_cast<std::size_t>(i)];
}

}  // namespace

extern "C" {

octet_status octet_attention_desc_init(octet_attention_desc* desc, octet_scheme scheme, const octet_tensor* q,
                                       const octet_tensor* k, const octet_tensor* v) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::known_struct("desc", desc));
    OCTET_TRY(capi::not_null("q", q));
    OCTET_TRY(capi::not_null("k", k));
    OCTET_TRY(capi::not_null("v", v));
    AttentionDesc d;
    OCTET_TRY(capi::known_scheme(scheme));
    OCTET_TRY(check_fit(*q, *k, *v));
    d.scheme = static_cast<Scheme>(scheme);
    d.batch = q->shape[0], d.heads_q = q->shape[1], d.heads_kv = k->shape[1];
    d.tokens_q = q->shape[2], d.tokens_k = k->shape[2];
    d.head_dim = q->shape[3], d.head_dim_v = v->shape[3];
    d.input = static_cast<DType>(q->dtype);
    d.device = static_cast<Device>(q->device);
    d.recipe = scheme_info(d.scheme).recipe;
    if (d.head_dim < 1)
      return broken("q's dim", d.head_dim, "it must be at least 1", "pass tensors [batch, head, token, dim]");
    d.softmax_scale = 1.0f / std::sqrt(static_cast<float>(d.head_dim));
    *desc = abi::to_c(d);
    return {};
  });
}

octet_status octet_plan_create(octet_plan** plan, const octet_attention_desc* desc, const char* backend) {
  if (plan) *plan = nullptr;
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("plan", plan));
    Result<std::unique_ptr<octet_plan>> made = make(desc, backend);
    if (made.ok()) *plan = made.value().release();
    return made.status();
  });
}

void octet_plan_destroy(octet_plan* plan) { delete plan; }

octet_status octet_supported(const octet_attention_desc* desc, const char* backend, char* reason,
                             size_t reason_bytes) {
  if (reason && reason_bytes > 0) reason[0] = '\0';
  const octet_status status = capi::guarded([&]() -> Status { return make(desc, backend).status(); });
  if (status != OCTET_OK && reason && reason_bytes > 0)
    std::snprintf(reason, reason_bytes, "%s", octet_last_error());
  return status;
}

int64_t octet_plan_workspace_bytes(const octet_plan* plan) { return plan ? plan->plan.workspace_bytes : -1; }

const char* octet_plan_kernel(const octet_plan* plan) { return plan ? plan->plan.kernel.c_str() : nullptr; }
const char* octet_plan_backend(const octet_plan* plan) { return plan ? plan->plan.backend.c_str() : nullptr; }
const char* octet_plan_explain(const octet_plan* plan) { return plan ? plan->explanation.c_str() : nullptr; }

octet_status octet_plan_desc(const octet_plan* plan, octet_attention_desc* desc) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("plan", plan));
    OCTET_TRY(capi::known_struct("desc", desc));
    *desc = abi::to_c(plan->plan.desc);
    return {};
  });
}

int32_t octet_plan_refusal_count(const octet_plan* plan) {
  return plan ? static_cast<int32_t>(plan->plan.refusals.size()) : 0;
}

const char* octet_plan_refusal_kernel(const octet_plan* plan, int32_t i) {
  const Refusal* r = refusal_at(plan, i);
  return r ? r->kernel.c_str() : nullptr;
}

const char* octet_plan_refusal_reason(const octet_plan* plan, int32_t i) {
  const Refusal* r = refusal_at(plan, i);
  return r ? r->reason.c_str() : nullptr;
}

}  // extern "C"
