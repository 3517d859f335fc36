// Schemes `fp8` and `fp8_hybrid`: e4m3 products with f32 sums. The codes are decoded to f32 exactly, so what
// is computed is FP8 attention with ideal accumulators; sums are kept in two levels, a key block's and the
// row's.
// Source: FlashAttention-3 (FP8) and its code; Colfax's FP8 note. Specification: docs/numerics/fp8.md,
// docs/numerics/fp8_hybrid.md.
#pragma once
#include "numerics/formats.h"
#include "numerics/scaled.h"

namespace octet {

/// The weight that stands for 1: 2^8 as in FlashAttention-3's code, so that P keeps normal e4m3 numbers down
/// to 14 octaves below the maximum and is 0 from 18 on (9.7 and 12.5 nats).
inline constexpr float kFp8Unit = 256.0f;
inline constexpr float kFp8UnitOctaves = 8;

/// kVScale: at_fold for calls of which P carries no scale of V, and then the same.
template <class L, VScale kVScale>
struct Fp8SchemeOf : ScaledOperands<L, Formats{Operand::f16, Operand::f16, Operand::f16, kVScale}> {
  using Base = ScaledOperands<L, Formats{Operand::f16, Operand::f16, Operand::f16, kVScale}>;
  using typename Base::F32, typename Base::Key, typename Base::Row, typename Base::Score,
      typename Base::State, typename Base::Step, typename Base::Sum, typename Base::View;

  static OCTET_HD Fp8SchemeOf prepare(const Prepare& p) { return {{p.softmax_scale * kLog2E}}; }
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    Step step = Online<L>::against_running_maximum(state, peak);
    step.origin = weight_origin<L>(step.origin, kFp8UnitOctaves);
    return step;
  }
  OCTET_HD F32 weight(Score score, const Step& step) const { return weight_at(score - step.origin); }
  OCTET_HD F32 weight_at(F32 distance) const { return weight_of_unit<L>(distance, kFp8Unit); }
  OCTET_HD F32 code(F32 weight) const { return round_to_e4m3(weight); }
  OCTET_HD Sum mass(F32 /*weight*/, F32 code, const Key& key) const {
    if constexpr (Base::kVInP)
      return code * key.rv;
    else
      return code;
  }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, kFp8Unit); }
};

template <class L>
using Fp8Scheme = Fp8SchemeOf<L, VScale::in_p>;

template <class L>
struct Fp8HybridScheme
    : ScaledOperands<L, Formats{Operand::f16, Operand::f16, Operand::f16, VScale::at_fold}> {
  using Base = ScaledOperands<L, Formats{Operand::f16, Operand::f16, Operand::f16, VScale::at_fold}>;
  using typename Base::F32, typename Base::Key, typename Base::Row, typename Base::Score,
      typename Base::State, typename Base::Step, typename Base::Sum, typename Base::View;

  using Merge = Online<L>;
  static OCTET_HD Fp8HybridScheme prepare(const Prepare& p) { return {{p.softmax_scale * kLog2E}}; }
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    return Online<L>::against_running_maximum(state, peak);
  }
  OCTET_HD F32 weight(Score score, const Step& step) const { return weight_at(score - step.origin); }
  OCTET_HD F32 weight_at(F32 distance) const { return weight_exp2<L>(distance); }
  OCTET_HD F32 code(F32 weight) const { return weight_f16<L>(weight); }
  OCTET_HD Sum mass(F32 weight, F32 /*code*/, const Key&) const { return weight; }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, 1); }
};

}  // namespace octet
