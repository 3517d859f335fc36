// Scheme `qattn`: QAttn's mixed attention. One scale for Q, K and V; int8 Q K^T; f32 softmax; P and V in
// bf16; int8 output. Source: QAttn's kernel, without its fault of counting the zeros that pad the last key
// block.
#pragma once
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/formats.h"
#include "numerics/online.h"

namespace octet {

template <class L>
struct QAttnScheme {
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = I32;
  using PvAcc = F32;
  using Score = F32;
  using Sum = F32;
  using Out = F32;
  using Bias = F32;
  using State = typename Online<L>::State;
  using Step = typename Online<L>::Step;
  static constexpr Operand kQk = Operand::s8, kP = Operand::bf16, kV = Operand::bf16;
  static constexpr Output kOutput = Output::one_scale;
  static constexpr bool kUsesRowPeak = false;
  static constexpr bool kRowLanes = true;

  struct Row {};
  struct Key {};
  struct Block {};
  struct View {};
  struct Channel {};

  float octaves;  ///< s_Q s_K softmax_scale log2 e
  float v_scale;

  static OCTET_HD QAttnScheme prepare(const Prepare& p) {
    return {p.q_scale * p.k_scale * p.softmax_scale * kLog2E, p.v_scale};
  }
  OCTET_HD Row row(F32 /*q_scale*/) const { return {}; }
  OCTET_HD Block block(float /*k_scale*/) const { return {}; }
  OCTET_HD Key key(const KeyScales<L>&, const Block&) const { return {}; }
  OCTET_HD Channel channel(const ChannelScales<L>&) const { return {}; }
  OCTET_HD Bias bias(F32 b) const { return L::max(kLeastBias, b * kLog2E); }  // NaN stays
  /// V as it enters the product.
  OCTET_HD F32 value(F32 code) const { return round_to_bf16(code * v_scale); }

  OCTET_HD View view(const Row&, const Block&, Acc /*row_peak*/) const { return {}; }
  OCTET_HD Score score(Acc acc, const View&, const Key&, Bias b) const {
    return L::to_f32(acc) * octaves + b;
  }
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    return Online<L>::against_running_maximum(state, peak);
  }
  OCTET_HD F32 weight(Score score, const Step& step) const { return weight_exp2<L>(score - step.origin); }
  OCTET_HD F32 code(F32 weight) const { return weight_bf16<L>(weight); }
  OCTET_HD Sum mass(F32 weight, F32 /*code*/, const Key&) const { return weight; }
  OCTET_HD Out& fold(Out& out, PvAcc pv, const Step& step, const Channel&) const {
    return out = Online<L>::fold(out, pv, step);
  }
  OCTET_HD State absorb(const State& state, const Step& step, Sum sum) const {
    return Online<L>::absorb(state, step, sum);
  }
  /// The shared scale covers the largest |V|, which no average of V exceeds by more than rounding; a tensor
  /// of zeros has 0.
  OCTET_HD I32 finish(Out out, const State& state, const Row&, const Channel&) const {
    const float scale = v_scale > 0 ? v_scale : 1.0f;
    return L::nearest_i32(L::min(L::max(out / (state.sum * scale), -128.0f), 127.0f));
  }
  OCTET_HD float output_scale() const { return v_scale; }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, 1); }
};

}  // namespace octet
