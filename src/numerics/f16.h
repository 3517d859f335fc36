// Schemes `f16` and `bf16`: FlashAttention with 16-bit operands and f32 sums. Q, K and V are decoded to f32
// exactly; P is rounded to the 16-bit format before the second product, as the matrix units want it.
// Source: FlashAttention-2 and -3. Specification: docs/numerics/f16.md, docs/numerics/bf16.md.
#pragma once
#include "numerics/formats.h"
#include "numerics/plain.h"

namespace octet {

/// What both share: outputs are multiplied by the reciprocal of the row's sum, whose rounding is far below
/// those of P and of outputs. A GPU would divide each channel by itself, and by way of a call where the sum
/// is 0, as of rows that nobody asked for.
template <class L>
struct HalfOperands : PlainOperands<L> {
  using typename PlainOperands<L>::F32, typename PlainOperands<L>::Out, typename PlainOperands<L>::State,
      typename PlainOperands<L>::Row, typename PlainOperands<L>::Channel;

  OCTET_HD F32 closing(const State& state) const { return 1.0f / state.sum; }
  OCTET_HD F32 finish(Out out, F32 closing, const Channel&) const { return out * closing; }
  OCTET_HD F32 finish(Out out, const State& state, const Row&, const Channel& channel) const {
    return finish(out, closing(state), channel);
  }
};

template <class L>
struct F16Scheme : HalfOperands<L> {
  using F32 = typename L::F32;
  static constexpr Operand kQk = Operand::f16, kP = Operand::f16, kV = Operand::f16;

  static OCTET_HD F16Scheme prepare(const Prepare& p) { return {{{p.softmax_scale * kLog2E}}}; }
  /// 11 significant bits; a weight below 2^-25 (17.3 nats under the maximum) becomes 0, below 2^-14 it loses
  /// bits.
  OCTET_HD F32 code(F32 weight) const { return weight_f16<L>(weight); }
};

template <class L>
struct Bf16Scheme : HalfOperands<L> {
  using F32 = typename L::F32;
  static constexpr Operand kQk = Operand::bf16, kP = Operand::bf16, kV = Operand::bf16;
  /// A kernel's weights may be off by so much, relatively: P's rounding is 2^-8.
  static constexpr double kWeightError = 0x1p-13;

  static OCTET_HD Bf16Scheme prepare(const Prepare& p) { return {{{p.softmax_scale * kLog2E}}}; }
  /// 8 significant bits over the whole range of f32.
  OCTET_HD F32 code(F32 weight) const { return weight_bf16<L>(weight); }
};

}  // namespace octet
