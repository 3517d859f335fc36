// Forms of `fp8`, `fp8_hybrid` and `int8_fp8` for matrix units that multiply e4m3 as it is (sm_89 and newer,
// Hopper's wgmma; src/cuda). The arithmetic is the schemes', but for the sums of such products: the unit
// aligns what it adds to the largest and cuts off below, so that sums of a key block lose bits that f32 has
// (docs/numerics/fp8.md).
#pragma once
#include <cmath>

#include "numerics/fp8.h"
#include "numerics/int8_fp8.h"
#include "numerics/unbiased.h"

namespace octet {

/// Of a scheme whose P are e4m3 and carry no scales: weights are rounded where lanes pack them, and a row's
/// sum is that of the codes.
template <class S>
struct PackedE4m3 : S {
  using F32 = typename S::F32;
  static constexpr Operand kQk = S::kQk == Operand::s8 ? Operand::s8 : Operand::e4m3, kP = Operand::e4m3,
                           kV = Operand::e4m3;
  static constexpr bool kAddsAsTheyAre = true;  ///< as in numerics/plain.h
  static constexpr bool kMassIsCode = true;
  static OCTET_HD PackedE4m3 prepare(const Prepare& p) { return {S::prepare(p)}; }
  OCTET_HD F32 code(F32 weight) const { return weight; }
};

/// P carries V's scales by token, and a row's sum takes them out of each code: codes are numbers before they
/// are packed.
template <class L>
struct Fp8Native : Fp8Scheme<L> {
  using F32 = typename L::F32;
  static constexpr Operand kQk = Operand::e4m3, kP = Operand::e4m3, kV = Operand::e4m3;
  static constexpr bool kAddsAsTheyAre = true;
  static OCTET_HD Fp8Native prepare(const Prepare& p) { return {Fp8Scheme<L>::prepare(p)}; }
  OCTET_HD F32 code(F32 weight) const { return nearest_e4m3<L>(weight); }
};

/// For calls without a bias of which P carries no scales of V, where all keys of a block have one scale: a
/// score is the sum of products itself, and one multiply-add makes the exponential's argument.
template <class L>
struct Fp8Uniform : PackedE4m3<Fp8SchemeOf<L, VScale::at_fold>> {
  using Base = PackedE4m3<Fp8SchemeOf<L, VScale::at_fold>>;
  using typename Base::F32, typename Base::Acc, typename Base::Row, typename Base::State;
  using Score = F32;
  struct Bias {};  ///< none is added
  struct Key {};
  struct Block {
    float scale;  ///< k scale
  };
  struct View {
    F32 slope;  ///< octaves of a score's 1
  };
  struct Step : Base::Step {
    F32 slope;
  };
  static constexpr auto kConstants = Constants::scale_of_block;
  /// As in LateScaled.
  static constexpr float kLeastSlope = 0x1p-126f;

  static OCTET_HD Fp8Uniform prepare(const Prepare& p) { return {Base::prepare(p)}; }
  OCTET_HD Block block(float k_scale) const { return {k_scale}; }
  OCTET_HD Key key(const KeyScales<L>&, const Block&) const { return {}; }
  OCTET_HD Bias bias(F32) const { return {}; }
  OCTET_HD View view(const Row& row, const Block& block, Acc /*row_peak*/) const {
    return {fmaxf(row.octaves * block.scale, kLeastSlope)};
  }
  OCTET_HD Score score(Acc acc, const View&, const Key&, Bias) const { return acc; }
  OCTET_HD Step step(const State& state, Score peak, const View& view) const {
    return {Base::step(state, peak * view.slope, {}), view.slope};
  }
  OCTET_HD Step blind_step(const State& state, Score peak, const View& view) const {
    const F32 scaled = peak * view.slope;
    return {Base::step(state, scaled < kLeastPeak ? kLeastPeak : scaled, {}), view.slope};
  }
  OCTET_HD F32 weight(Score score, const Step& step) const {
    return Base::weight_at(std::fma(score, step.slope, -step.origin));
  }
};

/// Q and K are bytes; P and V stay halves.
template <class L>
struct Fp8HybridNative : Fp8HybridScheme<L> {
  static constexpr Operand kQk = Operand::e4m3;
  static OCTET_HD Fp8HybridNative prepare(const Prepare& p) { return {Fp8HybridScheme<L>::prepare(p)}; }
};

/// Q and K are s8, whose sums are exact; P and V bytes of e4m3.
template <class L>
using Int8Fp8Native = PackedE4m3<Int8Fp8Scheme<L>>;

}  // namespace octet
