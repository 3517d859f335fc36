// The arithmetic of `int8` where all keys of a block have one scale and P carries none of V: a score is then
// the integer sum itself, whose largest is found among integers, and one multiply-add makes the exponential's
// argument. The numbers are those of numerics/folded_u8.h but for roundings, of which these are fewer; for
// lanes to which a multiplication a key is a cost (docs/cuda-measurements.md).
#pragma once
#include <cmath>

#include "numerics/folded_u8.h"

namespace octet {

template <class L>
struct UniformU8 : ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, VScale::at_fold}> {
  static constexpr bool kScaledSums = false;
  static constexpr auto kConstants = Constants::scale_of_block;
  using Base = ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, VScale::at_fold}>;
  using typename Base::F32, typename Base::I32, typename Base::Acc, typename Base::Row, typename Base::State,
      typename Base::Sum;

  using Merge = Online<L>;
  /// Q K^T starts from the bits of 1.5 * 2^23: a sum is then the bits of that plus the sum as a float, in the
  /// order of integers, and its conversion is the multiply-add that follows. |sum| <= 127 * 127 * 256 < 2^22.
  static constexpr std::int32_t kStart = 0x4b400000;
  using Score = I32;
  static constexpr float kStartNumber = 12582912, kHalfStep = 0x1p-24f;
  /// The score of a hidden key, the bits of minus infinity: as an integer below every sum, and as a float
  /// times a slope above 0 an exponential of 0.
  static constexpr std::int32_t kHiddenScore = -0x00800000;
  static constexpr float kLeastSlope = 0x1p-126f;
  struct Bias {};  ///< none is added: a biased call has scores in octaves
  struct Key {};
  struct Block {
    float scale;  ///< k scale
  };
  struct View {
    F32 slope;  ///< octaves of a score's 1
  };
  struct Step : Online<L>::Step {
    F32 slope;
  };

  static OCTET_HD UniformU8 prepare(const Prepare& p) { return {{p.softmax_scale * kLog2E}}; }
  OCTET_HD Block block(float k_scale) const { return {k_scale}; }
  OCTET_HD Key key(const KeyScales<L>&, const Block&) const { return {}; }
  OCTET_HD Bias bias(F32) const { return {}; }
  /// The slope has 22 significant bits, of which kStartNumber times it loses none; the least one is lost in
  /// every other than 0 that octaves show.
  OCTET_HD View view(const Row& row, const Block& block, Acc /*row_peak*/) const {
    return {float_of(bits_of(block.scale * row.octaves) & ~std::uint32_t{3}) + kLeastSlope};
  }
  OCTET_HD Score score(Acc acc, const View&, const Key&, Bias) const { return acc; }
  OCTET_HD Step step(const State& state, Score peak, const View& view) const {
    Step step{Online<L>::against_block_maximum_lazily(state, L::to_f32(peak - kStart) * view.slope),
              view.slope};
    // The start's share is large beside the scores, so that the origin's rounding shows, up to 0.75 slopes:
    // half a step is added for no weight to pass the unit, and what all weights of the block lose the block's
    // factor gives back.
    const F32 exact = AccurateExponential::origin<L>(step.origin), start = kStartNumber * view.slope;
    step.origin = start + (exact + start * kHalfStep);
    step.factor = step.factor * weight_exp2<L>(step.origin - start - exact);
    return step;
  }
  OCTET_HD F32 weight(Score score, const Step& step) const {
    return AccurateExponential::weight<L>(std::fma(float_of(as_unsigned(score)), step.slope, -step.origin));
  }
  /// As in FoldedU8. The argument's one rounding may leave the largest weight above 255 by as much as scores
  /// are off.
  OCTET_HD I32 code(F32 weight) const { return L::nearest_i32(weight); }
  OCTET_HD Sum mass(F32 weight, I32 /*code*/, const Key&) const { return weight; }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, kWeightUnit); }
};

}  // namespace octet
