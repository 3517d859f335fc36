// The quantiser's orders for the operands of a problem, and where what it writes lies in the workspace.
#pragma once
#include "base/sequences.h"
#include "core/plan.h"
#include "octet/status.hpp"
#include "octet/types.hpp"
#include "quant/quantize.h"

namespace octet::capi {

/// How the three operands of one problem become codes.
struct OperandRecipes {
  quant::OperandRecipe q, k, v;
};

/// The scheme's formats and rules with the problem's recipe. What depends on data is left open: K's anchor,
/// and the one amax that qattn shares.
OperandRecipes operand_recipes(const AttentionDesc& desc);

/// Whether the kernel reads plain operands as they come, so that nothing is copied: the input has the
/// scheme's format already, or the scheme is `exact`, which decodes any.
bool reads_input(const AttentionDesc& desc, DType format);

/// The sequences of a call's queries or keys.
inline Sequences sequences_of(const AttentionDesc& d, std::int64_t tokens, const std::int32_t* cu_seqlens) {
  return {d.sequences > 0 ? d.sequences : d.batch, tokens, d.sequences > 0 ? cu_seqlens : nullptr};
}

/// Whether the scores lack q . mean(K) that the LSE must get back.
bool shifts_lse(const AttentionDesc& desc);

/// What the largest absolute value maps to in a format.
float largest_code(DType format);

/// Bytes from a tensor's first element to its last one (strides not negative).
std::int64_t span_bytes(const TensorView& x);

/// Where a call's own tensors lie in the workspace: data holds the offset, shape 0: not needed.
struct CallLayout {
  TensorView q_anchor;       ///< softmax_scale * q . mean(K)
  TensorView q_dequantized;  ///< where q comes as codes and its product with K's mean is needed
  // On a GPU, at these offsets:
  std::int64_t scratch = 0;      ///< of the quantiser, of one operand at a time
  std::int64_t shared_amax = 0;  ///< one float: qattn's
};

/// Completes a plan: the layouts of q, k and v (data pointers hold offsets where octet writes them) and the
/// size of the workspace. Offsets are multiples of 64 bytes.
CallLayout lay_out(Plan& plan);

}  // namespace octet::capi
