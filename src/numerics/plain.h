// What the schemes on plain floats share (f32, f16, bf16): no scales anywhere, P against the running maximum,
// the row sum adds the unrounded weight. A scheme adds prepare() and code(), the format of P.
// Source: FlashAttention-2, Algorithm 1, with base-2 exponentials.
#pragma once
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/online.h"

namespace octet {

template <class L>
struct PlainOperands {
  using F32 = typename L::F32;
  using Acc = F32;
  using PvAcc = F32;
  using Score = F32;
  using Sum = F32;
  using Out = F32;
  using Bias = F32;
  using State = typename Online<L>::State;
  using Step = typename Online<L>::Step;
  using Merge = Online<L>;
  static constexpr Operand kQk = Operand::f32, kP = Operand::f32, kV = Operand::f32;
  static constexpr Output kOutput = Output::values;
  static constexpr bool kUsesRowPeak = false;
  static constexpr bool kRowLanes = true;
  /// As in numerics/folded_u8.h.
  static constexpr bool kPlainFold = true;
  /// A key block's sums have the factor 1, for P is measured against the running maximum: kernels fold them
  /// at once.
  static constexpr bool kAddsAsTheyAre = true;

  struct Row {};
  struct Key {};
  struct Block {};
  struct View {};
  struct Channel {};

  float octaves;  ///< softmax_scale * log2 e: octaves per unit of q . k

  OCTET_HD Row row(F32 /*q_scale*/) const { return {}; }
  OCTET_HD Block block(float /*k_scale*/) const { return {}; }
  OCTET_HD Key key(const KeyScales<L>&, const Block&) const { return {}; }
  OCTET_HD Channel channel(const ChannelScales<L>&) const { return {}; }
  OCTET_HD Bias bias(F32 b) const { return L::max(kLeastBias, b * kLog2E); }  // NaN stays

  OCTET_HD View view(const Row&, const Block&, Acc /*row_peak*/) const { return {}; }
  OCTET_HD Score score(Acc acc, const View&, const Key&, Bias b) const { return acc * octaves + b; }
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    return Online<L>::against_running_maximum(state, peak);
  }
  OCTET_HD F32 weight(Score score, const Step& step) const { return weight_exp2<L>(score - step.origin); }
  OCTET_HD Sum mass(F32 weight, F32 /*code*/, const Key&) const { return weight; }
  OCTET_HD Out& fold(Out& out, PvAcc pv, const Step& step, const Channel&) const {
    return out = Online<L>::fold(out, pv, step);
  }
  OCTET_HD bool keeps(const Step& step) const { return Online<L>::keeps(step); }
  OCTET_HD Out& rescale(Out& out, const Step& step) const { return out = Online<L>::rescale(out, step); }
  OCTET_HD Out& add(Out& out, PvAcc pv, const Step& step, const Channel&) const {
    return out = Online<L>::add(out, pv, step);
  }
  OCTET_HD State absorb(const State& state, const Step& step, Sum sum) const {
    return Online<L>::absorb(state, step, sum);
  }
  OCTET_HD F32 finish(Out out, const State& state, const Row&, const Channel&) const {
    return out / state.sum;
  }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, 1); }
};

}  // namespace octet
