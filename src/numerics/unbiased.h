// Forms of schemes for calls to which no bias is added, for lanes to which an instruction a score is a cost
// (docs/cuda-measurements.md).
#pragma once
#include <cmath>

#include "base/hd.h"
#include "numerics/contract.h"

namespace octet {

/// Octaves below every score of a key: what rows that see no key of a block are measured against, so that
/// their weights of nothing, 2^-inf, are 0.
inline constexpr float kLeastPeak = -0x1p126f;

/// The scheme's step, lazily where it has such a one: sums that were made are then hardly ever rescaled.
template <class S>
OCTET_HD typename S::Step lazy_step_of(const S& scheme, const typename S::State& state,
                                       typename S::Score peak, const typename S::View& view) {
  if constexpr (requires { scheme.lazy_step(state, peak); })
    return scheme.lazy_step(state, peak);
  else
    return scheme.step(state, peak, view);
}

/// The same arithmetic, without what a bias would need, and rescaled lazily.
template <class S>
struct Unbiased : S {
  struct Bias {};
  static OCTET_HD Unbiased prepare(const Prepare& p) { return {S::prepare(p)}; }
  OCTET_HD Bias bias(typename S::F32) const { return {}; }
  OCTET_HD typename S::Score score(typename S::Acc acc, const typename S::View& view,
                                   const typename S::Key& key, Bias) const {
    return S::score(acc, view, key, -0.0f);  // which the compiler leaves out of the sum
  }
  OCTET_HD typename S::Step step(const typename S::State& state, typename S::Score peak,
                                 const typename S::View& view) const {
    return lazy_step_of<S>(*this, state, peak, view);
  }
  OCTET_HD typename S::Step blind_step(const typename S::State& state, typename S::Score peak,
                                       const typename S::View& view) const {
    return step(state, peak < kLeastPeak ? kLeastPeak : peak, view);  // NaN stays
  }
};

/// Of a scheme on scaled codes whose P carries no scale of V: scores are without the row's factor, which
/// comes with the subtraction of the row's origin, in one rounding. K's scales up to 2^104: above, a score
/// leaves f32's range here, and in the scheme itself only its product with the row's factor does.
template <class S>
struct LateScaled : S {
  static constexpr bool kScaledSums = false;
  using F32 = typename S::F32;
  using Score = F32;
  using typename S::State;
  struct Bias {};
  struct Step : S::Step {
    F32 slope;  ///< octaves of a score's 1
  };
  /// Scores of hidden keys are minus infinity, whose product with a row's factor of 0 would be no number.
  static constexpr float kLeastSlope = 0x1p-126f;

  static OCTET_HD LateScaled prepare(const Prepare& p) { return {S::prepare(p)}; }
  OCTET_HD Bias bias(F32) const { return {}; }
  OCTET_HD Score score(typename S::Acc acc, const typename S::View&, const typename S::Key& key, Bias) const {
    return S::number(acc) * key.scale;
  }
  OCTET_HD Step step(const typename S::State& state, Score peak, const typename S::View& view) const {
    const F32 slope = fmaxf(view.octaves, kLeastSlope);
    return {lazy_step_of<S>(*this, state, peak * slope, view), slope};
  }
  OCTET_HD Step blind_step(const State& state, Score peak, const typename S::View& view) const {
    const F32 slope = fmaxf(view.octaves, kLeastSlope), scaled = peak * slope;
    return {lazy_step_of<S>(*this, state, scaled < kLeastPeak ? kLeastPeak : scaled, view), slope};
  }
  OCTET_HD F32 weight(Score score, const Step& step) const {
    return S::weight_at(std::fma(score, step.slope, -step.origin));
  }
  template <class Body, class Base = S>
  requires requires { Base::kAsksOptions; }
  OCTET_HD void with_weights(const Body& body) const { S::with_weights_of(*this, body); }
};

}  // namespace octet
