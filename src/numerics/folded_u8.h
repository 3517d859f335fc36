// The second product of octet's own schemes (int8, int8_shift, int4): P is u8 against each key block's own
// maximum and carries V's token scale; the block's exact int32 sums are folded into the row with the factor
// 2^(block maximum - running maximum); the row sum adds the unrounded weight over V's scale.
// Why each of these: docs/numerics/int8.md.
#pragma once
#include "numerics/fixed16.h"
#include "numerics/ordered_rounding.h"
#include "numerics/scaled.h"

namespace octet {

/// The weight that stands for 1: the largest u8 code.
inline constexpr float kWeightUnit = 255.0f;
inline constexpr float kWeightUnitOctaves = 7.99435344f;  // log2 of it

/// The exponential of `int8`: within 2e-7.
struct AccurateExponential {
  using Mantissa = fixed16::AccurateMantissa;
  template <class L>
  static OCTET_HD typename L::F32 weight(typename L::F32 distance) {
    return weight_of_unit<L>(distance, kWeightUnit);
  }
  template <class L>
  static OCTET_HD typename L::F32 origin(typename L::F32 peak) {
    return weight_origin<L>(peak, kWeightUnitOctaves);
  }
};

/// The exponential of `int8_shift`: straight lines between powers of two, up to 6.15 % high, exact at 0.
struct LinearExponential {
  using Mantissa = fixed16::LinearMantissa;
  template <class L>
  static OCTET_HD typename L::F32 weight(typename L::F32 distance) {
    return kWeightUnit * exp2_linear(distance);
  }
  template <class L>
  static OCTET_HD typename L::F32 origin(typename L::F32 peak) {
    return peak;
  }
};

/// kVScale: at_fold where V's scales are known not to vary along tokens, for calls whose P has none to carry.
template <class L, class Exponential, VScale kVScale = VScale::in_p>
struct FoldedU8 : ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, kVScale}> {
  using Base = ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, kVScale}>;
  using typename Base::F32, typename Base::I32, typename Base::Key, typename Base::Row, typename Base::Score,
      typename Base::State, typename Base::Step, typename Base::Sum, typename Base::View;

  using Merge = Online<L>;
  /// The scheme's 16-bit form (fixed16.h), for kernels that have words in lanes.
  using FixedMantissa = typename Exponential::Mantissa;
  /// Where the channel's scale is 1, fold() is out * decay + pv * factor: a kernel may do it where it has the
  /// sums, with one rounding less.
  static constexpr bool kPlainFold = true;
  /// The output of a row that has seen one key block, from the block's sums: the fold of a first block is
  /// pv * 1, for its maximum lies above minus infinity.
  OCTET_HD F32 only(I32 pv, const State&) const { return L::to_f32(pv); }

  static OCTET_HD FoldedU8 prepare(const Prepare& p) { return {{p.softmax_scale * kLog2E}}; }
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    return from_origin(Online<L>::against_block_maximum(state, peak));
  }
  /// The same for lanes of one value, which choose between two roads at no cost (numerics/online.h).
  OCTET_HD Step lazy_step(const State& state, Score peak) const {
    return from_origin(Online<L>::against_block_maximum_lazily(state, peak));
  }
  /// The same of rows that have seen nothing yet, for kernels that know it.
  OCTET_HD Step first_step(Score peak) const { return from_origin(Online<L>::of_first_block(peak)); }
  OCTET_HD F32 weight(Score score, const Step& step) const { return weight_at(score - step.origin); }
  OCTET_HD F32 weight_at(F32 distance) const { return Exponential::template weight<L>(distance); }
  /// 0...255: both exponentials are at most 1 for arguments up to 0, and 1 at the block's maximum.
  OCTET_HD I32 code(F32 weight) const { return L::nearest_i32(weight); }
  /// The same by the key's place (numerics/ordered_rounding.h). v_largest: of the key block's V scales.
  OCTET_HD I32 code(F32 weight, F32 offset, const Key& key, float v_largest) const
      requires(kVScale == VScale::in_p) {
    const F32 ordered = L::select(weight < 1.0f, weight + offset, weight);
    return code(L::select(key.rv * v_largest <= kOrderedRange, ordered, weight));
  }
  OCTET_HD Sum mass(F32 weight, I32 /*code*/, const Key& key) const {
    if constexpr (kVScale == VScale::in_p)
      return weight * key.rv;
    else
      return weight;
  }
  /// The reference carries log2 of V's scale and the sum its reciprocal: they cancel.
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, kWeightUnit); }

 private:
  static OCTET_HD Step from_origin(Step step) {
    step.origin = Exponential::template origin<L>(step.origin);
    return step;
  }
};

}  // namespace octet
