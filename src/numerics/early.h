// A form of int8's arithmetic for calls to which no bias is added, on lanes that wait for the exponential
// (docs/cuda-measurements.md): weights are measured against the row's reference, which is known, and not
// against the key block's largest score, for which all scores of the block must be there first. What codes of
// P are measured against is a factor of the weights, a multiplication where the origin's subtraction was.
#pragma once
#include <cmath>

#include "base/hd.h"
#include "numerics/folded_u8.h"
#include "numerics/unbiased.h"

namespace octet {

/// Unbiased<S>, and of a block whose rows all see all its keys, instead of its score() to absorb():
///
///   exponent[j] = scheme.exponent(acc[j], row, key[j], lift);  weight[j] = scheme.early_weight(exponent[j])
///   above       = scheme.above(largest exponent[j])              octaves above the reference
///   p[j]        = scheme.code(weight[j] * scheme.early_weight(-above))
///   out[c]     += (sum over j of p[j] v[j][c]) * scheme.early_weight(above)
///   state.sum  += sum over j of scheme.mass(weight[j], _, key[j])
///
/// where lift = scheme.lift(state, scheme.rslope(row)). A row that has seen no key yet has a reference all
/// the same: kAboveFirstKeys above the largest exponent, of lift 0, of some keys of its first block; or
/// kFirstReference, and lift 0. Where above is not up to kMostAbove, or with kFirstReference is below
/// -kMostBelow, the row is to be computed without these. K's scales up to 2^104, as in LateScaled.
template <class S>
struct Early : Unbiased<S> {
  using F32 = typename S::F32;
  using typename S::Acc, typename S::Key, typename S::Row, typename S::State;

  static OCTET_HD Early prepare(const Prepare& p) { return {Unbiased<S>::prepare(p)}; }

  /// A factor below kLeastSlope counts as it, so that no lift is infinite.
  static constexpr float kLeastSlope = 0x1p-100f;
  OCTET_HD Row row(F32 q_scale) const {
    const F32 slope = S::row(q_scale).octaves;
    return {slope < kLeastSlope ? kLeastSlope : slope};  // NaN stays
  }
  /// What products are raised by for the reference's weight to be the unit: octaves over the row's factor.
  OCTET_HD F32 lift(const State& state, F32 rslope) const {
    return (kWeightUnitOctaves - state.reference) * rslope;
  }
  OCTET_HD F32 rslope(const Row& row) const { return 1.0f / row.octaves; }
  OCTET_HD F32 exponent(Acc acc, const Row& row, const Key& key, F32 lift) const {
    return std::fma(std::fma(S::number(acc), key.scale, lift), row.octaves, key.log2_v);
  }
  OCTET_HD F32 early_weight(F32 exponent) const { return S::weight_at(exponent); }

  OCTET_HD F32 above(F32 largest_exponent) const { return largest_exponent - kWeightUnitOctaves; }
  /// Of a row that has seen no key yet the reference is the unit, and lift 0.
  static constexpr float kFirstReference = kWeightUnitOctaves;
  /// Factors up to 2^kMostAbove leave sums of 2^14 key blocks finite. A first block whose largest score is
  /// kMostBelow below the reference still has weights of 2^-54 of that among the normal numbers.
  static constexpr float kMostAbove = 90, kMostBelow = 80;
  /// Octaves, for the other keys' scores may lie above the first ones' by as many more. Weights down to 2^-86
  /// of the largest of the first keys' are normal numbers then.
  static constexpr float kAboveFirstKeys = 48;
};

}  // namespace octet
