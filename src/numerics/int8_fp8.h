// Scheme `int8_fp8`: SageAttention2's arithmetic, for comparison. Q and K are s8, P and V e4m3, with ideal
// f32 accumulators in two levels.
// Source: SageAttention2 and its code. Specification: docs/numerics/int8_fp8.md.
#pragma once
#include "numerics/formats.h"
#include "numerics/scaled.h"

namespace octet {

/// log2 of e4m3's largest number.
inline constexpr float kE4M3MaxOctaves = 8.80735492f;

template <class L>
struct Int8Fp8Scheme : ScaledOperands<L, Formats{Operand::s8, Operand::f16, Operand::f16, VScale::at_fold}> {
  using Base = ScaledOperands<L, Formats{Operand::s8, Operand::f16, Operand::f16, VScale::at_fold}>;
  using typename Base::F32, typename Base::Key, typename Base::Row, typename Base::Score,
      typename Base::State, typename Base::Step, typename Base::Sum, typename Base::View;

  static OCTET_HD Int8Fp8Scheme prepare(const Prepare& p) { return {{p.softmax_scale * kLog2E}}; }
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    Step step = Online<L>::against_running_maximum(state, peak);
    step.origin = weight_origin<L>(step.origin, kE4M3MaxOctaves);
    return step;
  }
  /// The weight that stands for 1 is e4m3's largest number: SageAttention2's static scale 1/448 of P.
  OCTET_HD F32 weight(Score score, const Step& step) const { return weight_at(score - step.origin); }
  OCTET_HD F32 weight_at(F32 distance) const { return weight_of_unit<L>(distance, kE4M3Max); }
  OCTET_HD F32 code(F32 weight) const { return round_to_e4m3(weight); }
  OCTET_HD Sum mass(F32 /*weight*/, F32 code, const Key&) const { return code; }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, kE4M3Max); }
};

}  // namespace octet
