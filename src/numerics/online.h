// The online softmax shared by every scheme with a float state: running maximum, row sum, rescaling, LSE.
// Source: FlashAttention-2, section 3.1, in base 2; the block-maximum form is octet's
// (docs/numerics/int8.md). State and Step are of rows, one a lane.
#pragma once
#include "base/bits.h"
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"

namespace octet {

template <class L>
struct Online {
  using F32 = typename L::F32;

  struct State {
    F32 reference = L::broadcast(kMinusInfinity);  ///< running row maximum, octaves
    F32 sum{};                                     ///< sum of weights against it
  };
  struct Step {
    F32 origin;     ///< what this block's weights are measured against
    F32 reference;  ///< the new running maximum
    F32 decay;      ///< factor of everything summed before; 0 at the first block, where nothing was
    F32 factor;     ///< factor of this block's sums
  };

  /// P against the running maximum, as published: the block's sums enter as they are.
  static OCTET_HD Step against_running_maximum(const State& state, F32 peak) {
    const F32 reference = L::max(state.reference, peak);
    return {reference, reference, weight_exp2<L>(state.reference - reference), L::broadcast(1)};
  }

  /// P against the key block's own maximum: the block's sums are folded in with the factor 2^(block maximum -
  /// running maximum). One of decay and factor is 1.
  static OCTET_HD Step against_block_maximum(const State& state, F32 peak) {
    const F32 ahead = state.reference - peak, lower = weight_exp2<L>(L::min(ahead, -ahead));
    const auto rises = ahead < 0.0f;
    return {peak, L::max(state.reference, peak), L::select(rises, lower, L::broadcast(1)),
            L::select(rises, L::broadcast(1), lower)};
  }

  /// The same for lanes of one value: the reference stays where the first block left it until a block's
  /// maximum is kFarAhead octaves above, so that what was summed before is hardly ever rescaled. Sums are the
  /// larger by 2^kFarAhead at most.
  static constexpr float kFarAhead = 32;
  static OCTET_HD Step against_block_maximum_lazily(const State& state, F32 peak) {
    const F32 ahead = peak - state.reference;
    if (ahead <= kFarAhead) return {peak, state.reference, 1, weight_exp2<L>(ahead)};
    return {peak, peak, weight_exp2<L>(-ahead), 1};
  }

  /// The same of a row that has seen nothing yet.
  static OCTET_HD Step of_first_block(F32 peak) { return {peak, peak, F32{}, L::broadcast(1)}; }

  static OCTET_HD State absorb(const State& state, const Step& step, F32 block_sum) {
    return {step.reference, state.sum * step.decay + block_sum * step.factor};
  }

  // Merge of a scheme whose P loses nothing by that: it is measured against each key block's own maximum, or
  // floating-point. Codes against the running maximum would be others than those of one pass.

  /// The state of both sets of keys, each of which has one at least. The order shows in rounding only.
  static OCTET_HD State merge(const State& state, const State& other) {
    return absorb(state, against_block_maximum(state, other.reference), other.sum);
  }
  /// The sums of both, in place; the states are those before merge().
  static OCTET_HD void merge_out(F32& out, const State& state, F32 other, const State& other_state) {
    out = fold(out, other, against_block_maximum(state, other_state.reference));
  }

  static OCTET_HD F32 fold(F32 out, F32 block_sum, const Step& step) {
    return out * step.decay + block_sum * step.factor;
  }
  /// fold() in two parts, the first of which does nothing for most blocks: where keeps(step).
  static OCTET_HD bool keeps(const Step& step) { return step.decay == 1; }
  static OCTET_HD F32 rescale(F32 out, const Step& step) { return out * step.decay; }
  static OCTET_HD F32 add(F32 out, F32 block_sum, const Step& step) { return out + block_sum * step.factor; }

  /// Natural logarithm of the sum of exponentials; `unit` is the weight that stands for 1 (255 for u8 codes).
  static OCTET_HD F32 lse(const State& state, float unit) {
    return (state.reference + log2_poly(state.sum / unit)) * kLn2;
  }
};

}  // namespace octet
