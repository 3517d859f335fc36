// Checks the data of a call against its plan.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/try.h"
#include "core/names.h"
#include "core/plan.h"
#include "core/schemes.h"
#include "core/sentence.h"
#include "octet/dtype.hpp"

namespace octet {
namespace {

using Axes = std::array<std::int64_t, 4>;
using Bias = AttentionDesc::Bias;
constexpr std::uintptr_t kWorkspaceAlignment = 64;

Status must_be_unset(std::string_view argument, const void* data, std::string_view rule,
                     std::string_view remedy) {
  if (!data) return {};
  return broken(argument, "set", rule, remedy);
}

Status same_shape(const std::string& argument, const TensorView& x, const Axes& shape) {
  if (x.shape == shape) return {};
  return broken(argument + ".shape", shape_text(x.shape), "the problem's is " + shape_text(shape),
                "pass a tensor of that shape, or plan for the shape that it has");
}

/// A tensor beside the codes: there exactly where the plan's layout has it.
Status check_part(const std::string& argument, const TensorView& x, const TensorView& planned, DType dtype,
                  Device device) {
  const bool wanted = planned.shape != Axes{};
  if (!wanted) {
    return must_be_unset(argument, x.data, "the planned recipe has no such tensor",
                         "leave it unset, or plan for the recipe that made it");
  }
  OCTET_TRY(same_shape(argument, x, planned.shape));
  return validate_tensor(argument, x, dtype, device);
}

Status check_plain(const std::string& argument, const QuantizedTensor& x, const Axes& shape, DType dtype,
                   Device device) {
  constexpr auto kRule = "the plan is for plain numbers";
  constexpr auto kRemedy = "set only the codes, or plan with the codes' dtype as input";
  OCTET_TRY(must_be_unset(argument + ".scales", x.scales.data, kRule, kRemedy));
  OCTET_TRY(must_be_unset(argument + ".channel_exponent", x.channel_exponent.data, kRule, kRemedy));
  OCTET_TRY(must_be_unset(argument + ".mean", x.mean.data, kRule, kRemedy));
  OCTET_TRY(same_shape(argument, x.codes, shape));
  return validate_tensor(argument, x.codes, dtype, device);
}

Status check_quantized(const std::string& argument, const QuantizedTensor& x, const QuantizedTensor& planned,
                       Device device) {
  OCTET_TRY(same_shape(argument + ".codes", x.codes, planned.codes.shape));
  OCTET_TRY(validate_tensor(argument + ".codes", x.codes, planned.codes.dtype, device));
  if (x.tokens_per_scale != planned.tokens_per_scale || x.channels_per_scale != planned.channels_per_scale) {
    return broken(argument + ".tokens_per_scale, channels_per_scale",
                  std::to_string(x.tokens_per_scale) + ", " + std::to_string(x.channels_per_scale),
                  "the planned recipe has " + std::to_string(planned.tokens_per_scale) + ", " +
                      std::to_string(planned.channels_per_scale),
                  "plan for the granularity of the codes");
  }
  if (x.rotate != planned.rotate || (x.rotate == Rotate::on && x.rotation_seed != planned.rotation_seed)) {
    return broken(argument + ".rotate", name_of(x.rotate) + ", seed " + std::to_string(x.rotation_seed),
                  "the planned recipe has " + name_of(planned.rotate) + ", seed " +
                      std::to_string(planned.rotation_seed),
                  "plan for the rotation of the codes");
  }
  OCTET_TRY(check_part(argument + ".scales", x.scales, planned.scales, DType::f32, device));
  OCTET_TRY(check_part(argument + ".channel_exponent", x.channel_exponent, planned.channel_exponent,
                       DType::s32, device));
  return check_part(argument + ".mean", x.mean, planned.mean, DType::f32, device);
}

/// K and V lie in a cache: a caller who sets them too means another function.
Status check_keys_unset(const AttentionArgs& args) {
  constexpr auto kRule = "the keys are those of the cache";
  constexpr auto kRemedy = "leave it unset, or call octet_attend";
  OCTET_TRY(must_be_unset("k", args.k.codes.data, kRule, kRemedy));
  OCTET_TRY(must_be_unset("v", args.v.codes.data, kRule, kRemedy));
  return must_be_unset("k_anchor", args.k_anchor.data, kRule, "leave it unset: the cache was made with it");
}

Status check_inputs(const Plan& plan, const AttentionArgs& args) {
  const AttentionDesc& d = plan.desc;
  if (plan.keys == Plan::Keys::cache) {
    OCTET_TRY(check_keys_unset(args));
    return check_plain("q", args.q, {d.batch, d.heads_q, d.tokens_q, d.head_dim}, d.input, plan.device);
  }
  if (takes_codes(d)) {
    OCTET_TRY(check_quantized("q", args.q, plan.q.layout, plan.device));
    OCTET_TRY(check_quantized("k", args.k, plan.k.layout, plan.device));
    return check_quantized("v", args.v, plan.v.layout, plan.device);
  }
  const Axes q{d.batch, d.heads_q, d.tokens_q, d.head_dim};
  const Axes k{d.batch, d.heads_kv, d.tokens_k, d.head_dim}, v{d.batch, d.heads_kv, d.tokens_k, d.head_dim_v};
  OCTET_TRY(check_plain("q", args.q, q, d.input, plan.device));
  OCTET_TRY(check_plain("k", args.k, k, d.input, plan.device));
  return check_plain("v", args.v, v, d.input, plan.device);
}

Status check_cu_seqlens(const std::string& argument, const std::int32_t* cu, const AttentionDesc& d,
                        std::int64_t tokens) {
  if (d.sequences > 0 && d.device == Device::cuda) {
    // note: they lie in device memory, which is not waited for.
    if (cu) return {};
    return broken(argument, "NULL", "the plan is for packed sequences",
                  "pass sequences + 1 token offsets in device memory");
  }
  if (d.sequences > 0) return validate_cu_seqlens(argument, cu, d.sequences, tokens);
  return must_be_unset(argument, cu, "the plan is for dense tensors",
                       "leave it unset, or plan with the number of sequences");
}

Status check_bias(const Plan& plan, const TensorView& bias) {
  const AttentionDesc& d = plan.desc;
  if (d.bias == Bias::none) {
    return must_be_unset("bias", bias.data, "the plan is for a problem without one",
                         "leave it unset, or plan with a boolean or additive bias");
  }
  const Axes full{d.batch, d.heads_q, d.tokens_q, d.tokens_k};
  for (std::size_t a = 0; a < 4; ++a) {
    if (bias.shape[a] == full[a] || bias.shape[a] == 1) continue;
    return broken("bias.shape", shape_text(bias.shape), "each axis must be 1 or that of " + shape_text(full),
                  "pass 1 for an axis that is broadcast");
  }
  const bool adds = bias.dtype == DType::f32 || bias.dtype == DType::f16 || bias.dtype == DType::bf16;
  if (d.bias == Bias::additive && !adds) {
    return broken("bias.dtype", name_of(bias.dtype), "an additive bias is f32, f16 or bf16",
                  "convert it, or plan with a boolean bias");
  }
  return validate_tensor("bias", bias, d.bias == Bias::boolean ? DType::boolean : bias.dtype, plan.device);
}

Status check_anchor(const Plan& plan, const TensorView& anchor) {
  if (!anchor.data) return {};
  const AttentionDesc& d = plan.desc;
  if (d.recipe.smooth != Smooth::anchor || takes_codes(d)) {
    return broken("k_anchor", "set", "the planned recipe takes no anchor in this call",
                  "leave it unset, or plan with smooth = anchor and plain inputs");
  }
  const Axes shape{anchor.shape[0] == 1 ? 1 : d.batch, d.heads_kv, 1, d.head_dim};
  OCTET_TRY(same_shape("k_anchor", anchor, shape));
  return validate_tensor("k_anchor", anchor, DType::f32, plan.device);
}

Status check_workspace(const Plan& plan, const AttentionArgs& args) {
  if (args.workspace_bytes < plan.workspace_bytes) {
    return broken("workspace_bytes", args.workspace_bytes,
                  "the plan needs " + std::to_string(plan.workspace_bytes),
                  "ask octet_plan_workspace_bytes and pass that much");
  }
  if (plan.workspace_bytes == 0) return {};
  if (!args.workspace)
    return broken("workspace", "NULL", "the plan needs " + std::to_string(plan.workspace_bytes) + " bytes",
                  "pass memory of that size");
  if (reinterpret_cast<std::uintptr_t>(args.workspace) % kWorkspaceAlignment == 0) return {};
  return broken("workspace", "misaligned", "it must be a multiple of 64 bytes",
                "allocate it with aligned_alloc or its like");
}

Status check_rows(const std::string& argument, const Plan& plan, const TensorView& x, bool wanted,
                  std::string_view unwanted_rule, std::string_view remedy) {
  const AttentionDesc& d = plan.desc;
  if (!wanted) return must_be_unset(argument, x.data, unwanted_rule, remedy);
  return validate_output(argument, x, DType::f32, plan.device, {d.batch, d.heads_q, d.tokens_q, 1});
}

/// Bytes that a tensor may touch, as a half-open range of addresses; empty where it has none.
struct Extent {
  std::string_view argument;
  std::uintptr_t begin = 0, end = 0;
};

Extent extent_of(std::string_view argument, const TensorView& x) {
  if (!x.data || std::any_of(x.shape.begin(), x.shape.end(), [](auto n) { return n == 0; }))
    return {argument};
  std::int64_t low = 0, high = 0;
  for (std::size_t a = 0; a < 4; ++a) {
    const std::int64_t reach = (x.shape[a] - 1) * x.stride[a];
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t bytes = bytes_of(x.dtype);
  const auto base = reinterpret_cast<std::uintptr_t>(x.data);
  if (x.dtype == DType::s4) return {argument, base, base + static_cast<std::uintptr_t>(high / 2 + 1)};
  return {argument, base - static_cast<std::uintptr_t>(-low * bytes),
          base + static_cast<std::uintptr_t>((high + 1) * bytes)};
}

/// What is written must not overlap what is read, nor anything else that is written.
Status check_overlaps(const AttentionArgs& args, std::int64_t workspace_bytes) {
  const auto workspace = reinterpret_cast<std::uintptr_t>(args.workspace);
  const std::array<Extent, 4> written{
      extent_of("o", args.o), extent_of("lse", args.lse), extent_of("o_scale", args.o_scale),
      Extent{"workspace", workspace, workspace + static_cast<std::uintptr_t>(workspace_bytes)}};
  std::vector<Extent> all(written.begin(), written.end());
  for (const Extent& e :
       {extent_of("q", args.q.codes), extent_of("k", args.k.codes), extent_of("v", args.v.codes),
        extent_of("q.scales", args.q.scales), extent_of("k.scales", args.k.scales),
        extent_of("v.scales", args.v.scales), extent_of("k.mean", args.k.mean),
        extent_of("v.channel_exponent", args.v.channel_exponent), extent_of("bias", args.bias),
        extent_of("k_anchor", args.k_anchor)})
    all.push_back(e);
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (std::size_t j = i + 1; j < all.size(); ++j) {
      const bool apart = written[i].end <= all[j].begin || all[j].end <= written[i].begin;
      if (apart || written[i].begin == written[i].end || all[j].begin == all[j].end) continue;
      return broken(written[i].argument, "in the memory of " + std::string(all[j].argument),
                    "what a call writes must overlap nothing else of it", "give it memory of its own");
    }
  }
  return {};
}

}  // namespace

Status validate_cu_seqlens(const std::string& argument, const std::int32_t* cu, std::int64_t sequences,
                           std::int64_t tokens) {
  if (!cu)
    return broken(argument, "NULL", "the plan is for packed sequences", "pass sequences + 1 token offsets");
  if (reinterpret_cast<std::uintptr_t>(cu) % alignof(std::int32_t) != 0)
    return broken(argument, "misaligned", "it must be a multiple of 4 bytes", "copy it to aligned memory");
  if (cu[0] != 0)
    return broken(argument + "[0]", cu[0], "it must be 0", "count tokens from the first sequence");
  for (std::int64_t s = 0; s < sequences; ++s) {
    if (cu[s + 1] >= cu[s]) continue;
    return broken(argument + "[" + std::to_string(s + 1) + "]", cu[s + 1],
                  "offsets must not fall, and the one before it is " + std::to_string(cu[s]),
                  "pass running sums of the lengths");
  }
  if (cu[sequences] == tokens) return {};
  return broken(argument + "[" + std::to_string(sequences) + "]", cu[sequences],
                "the last offset must be the number of tokens, which is " + std::to_string(tokens),
                "pass running sums of the lengths");
}

Status validate_args(const Plan& plan, const AttentionArgs& args, Outputs outputs) {
  const AttentionDesc& d = plan.desc;
  OCTET_TRY(check_inputs(plan, args));
  OCTET_TRY(check_cu_seqlens("cu_seqlens_q", args.cu_seqlens_q, d, d.tokens_q));
  OCTET_TRY(check_cu_seqlens("cu_seqlens_k", args.cu_seqlens_k, d, d.tokens_k));
  OCTET_TRY(check_bias(plan, args.bias));
  OCTET_TRY(check_anchor(plan, args.k_anchor));
  OCTET_TRY(check_workspace(plan, args));
  if (outputs == Outputs::none) return {};
  OCTET_TRY(
      validate_output("o", args.o, d.output, plan.device, {d.batch, d.heads_q, d.tokens_q, d.head_dim_v}));
  OCTET_TRY(check_rows("lse", plan, args.lse, d.wants_lse, "the plan is for a call without it",
                       "leave it unset, or plan with wants_lse"));
  OCTET_TRY(check_rows("o_scale", plan, args.o_scale, d.output == DType::s8,
                       "only an output of s8 has scales", "leave it unset, or plan with s8 output"));
  return check_overlaps(args, plan.workspace_bytes);
}

}  // namespace octet
