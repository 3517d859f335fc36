#include "capi/prepass_cuda.h"

#include <array>
#include <utility>
#include <vector>

#include "base/try.h"
#include "capi/placed.h"
#include "cuda/cuda.h"

namespace octet::capi {
namespace {

/// What a call's kernel runs with, and the plain operands that become part of it.
struct Made {
  AttentionArgs ready;
  std::vector<cuda::PlainOperand> operands;
};

/// Where what attention reads of K and V may go, and whether it went there.
struct Packing {
  cuda::PackedValues values = {};
  cuda::ConstantsOfKeys constants = {};
  bool has_values = false, has_constants_of_k = false, has_constants_of_v = false;

  bool has_all_constants() const {
    return has_values && has_constants_of_k && (has_constants_of_v || !constants.v.data);
  }
};

/// K, V and Q, those of them that the call makes.
Made made_of(const Plan& plan, const AttentionArgs& args, const OperandRecipes& recipes, Operands which,
             Packing& packing) {
  const AttentionDesc& d = plan.desc;
  const Sequences queries = sequences_of(d, d.tokens_q, args.cu_seqlens_q);
  const Sequences keys = sequences_of(d, d.tokens_k, args.cu_seqlens_k);
  Made made{args, {}};
  const auto convert = [&](QuantizedTensor& x, const OperandPlan& planned, const quant::OperandRecipe& recipe,
                           const Sequences& sequences) -> cuda::PlainOperand {
    const QuantizedTensor out = placed(planned.layout, args.workspace);
    const cuda::PlainOperand operand{x.codes, sequences, recipe, out};
    x = out;
    return operand;
  };
  const bool makes_keys = which != Operands::queries;
  if (plan.k.is_made()) {
    cuda::PlainOperand k = convert(made.ready.k, plan.k, recipes.k, keys);
    k.constants = packing.constants.k, k.has_constants = &packing.has_constants_of_k;
    if (makes_keys) made.operands.push_back(k);
  }
  if (plan.v.is_made()) {
    cuda::PlainOperand v = convert(made.ready.v, plan.v, recipes.v, keys);
    v.packed = packing.values, v.is_packed = &packing.has_values;
    v.constants = packing.constants.v, v.has_constants = &packing.has_constants_of_v;
    if (makes_keys) made.operands.push_back(v);
  }
  if (which != Operands::keys && plan.q.is_made())
    made.operands.push_back(convert(made.ready.q, plan.q, recipes.q, queries));
  return made;
}

}  // namespace

Result<AttentionArgs> prepare_on_device(const Plan& plan, const CallLayout& call, const AttentionArgs& args,
                                        Operands which, Others others) {
  const AttentionDesc& d = plan.desc;
  OperandRecipes recipes = operand_recipes(d);
  recipes.k.anchor = args.k_anchor;
  auto* workspace = static_cast<std::byte*>(args.workspace);
  void* scratch = others.scratch ? others.scratch : workspace + call.scratch;
  cuda::DeviceWords words;
  if (d.scheme == Scheme::qattn && !takes_codes(d)) {
    if (which != Operands::all) {
      return Status{Code::unsupported,
                    "scheme qattn scales q, k and v by their one largest element, so plain k and v cannot be "
                    "packed without q; pass codes, or call octet_attend"};
    }
    auto* amax = reinterpret_cast<float*>(workspace + call.shared_amax);
    const std::array<TensorView, 3> all{args.q.codes, args.k.codes, args.v.codes};
    OCTET_TRY(cuda::finite_amax(all, amax, args.stream));
    words.shared_amax = amax;
  }
  Packing packing;
  if (which != Operands::queries && recipes.v.format == DType::s8 && plan.v.is_made()) {
    packing.values = cuda::packed_values(d, workspace + plan.kernel_offset);
    if (plan.k.is_made()) packing.constants = cuda::packed_constants(d, workspace + plan.kernel_offset);
  }
  auto [ready, own] = made_of(plan, args, recipes, which, packing);
  std::vector<cuda::PlainOperand> operands = std::move(others.operands);
  operands.insert(operands.end(), own.begin(), own.end());
  OCTET_TRY(cuda::quantize(operands, scratch, args.stream, words));
  ready.follows_codes_of_k = which != Operands::queries && plan.k.is_made() && !plan.v.is_made();
  if (packing.has_values) ready.v.codes.data = packing.values.data;
  if (packing.has_all_constants()) ready.k.scales.data = packing.constants.k.data;
  if (which == Operands::keys) return ready;
  // note: without keys there is no mean, and every LSE is -inf whatever is added to it.
  if (!shifts_lse(d) || d.tokens_k == 0 || d.tokens_q == 0) return ready;

  const Sequences queries = sequences_of(d, d.tokens_q, args.cu_seqlens_q);
  ready.q_anchor = placed(call.q_anchor, args.workspace);
  TensorView q = args.q.codes;
  if (takes_codes(d)) {
    q = placed(call.q_dequantized, args.workspace);
    OCTET_TRY(cuda::dequantize(args.q, queries, q, scratch, args.stream));
  }
  OCTET_TRY(cuda::fill_q_anchor(q, queries, ready.k.mean, d.softmax_scale, ready.q_anchor, args.stream));
  return ready;
}

Result<bool> attend_plain_on_device(const Plan& plan, const AttentionArgs& args) {
  const AttentionDesc& d = plan.desc;
  if (takes_codes(d) || !plan.q.is_made() || !plan.k.is_made() || d.scheme == Scheme::qattn ||
      shifts_lse(d) || d.tokens_k == 0)
    return false;
  Packing nowhere;
  Made made = made_of(plan, args, operand_recipes(d), Operands::all, nowhere);
  made.ready.workspace = static_cast<std::byte*>(args.workspace) + plan.kernel_offset;
  return cuda::attend_plain(d, made.ready, made.operands);
}

}  // namespace octet::capi
