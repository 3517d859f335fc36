// Schemes `int8_full` and `int8_half`: INT-FlashAttention. Q and K are s8 with scales a token; P is 7 bits
// against the running row maximum, or f16 in the half form.
// Source: INT-FlashAttention, Algorithm 1 and section 3. Specification: docs/numerics/int8_full.md,
// docs/numerics/int8_half.md.
#pragma once
#include "numerics/formats.h"
#include "numerics/scaled.h"

namespace octet {

/// The weight that stands for 1: the paper's R.
inline constexpr float kInt8FullUnit = 127.0f;
inline constexpr float kInt8FullUnitOctaves = 6.98868468f;  // log2 of it

template <class L>
struct Int8FullScheme : ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, VScale::at_fold}> {
  using Base = ScaledOperands<L, Formats{Operand::s8, Operand::u8, Operand::s8, VScale::at_fold}>;
  using typename Base::F32, typename Base::I32, typename Base::Key, typename Base::Row, typename Base::Score,
      typename Base::State, typename Base::Step, typename Base::Sum, typename Base::View;

  static constexpr bool kAddsAsTheyAre = true;  ///< as in numerics/plain.h
  static constexpr bool kPlainFold = true;      ///< as in numerics/folded_u8.h, and only()
  SchemeOptions::RowSum row_sum;                ///< the code's form or the paper's

  static OCTET_HD Int8FullScheme prepare(const Prepare& p) {
    return {{p.softmax_scale * kLog2E}, p.options.row_sum};
  }
  OCTET_HD F32 only(I32 pv, const State&) const { return L::to_f32(pv); }
  OCTET_HD Step step(const State& state, Score peak, const View&) const {
    Step step = Online<L>::against_running_maximum(state, peak);
    step.origin = weight_origin<L>(step.origin, kInt8FullUnitOctaves);
    return step;
  }
  OCTET_HD F32 weight(Score score, const Step& step) const { return weight_at(score - step.origin); }
  OCTET_HD F32 weight_at(F32 distance) const { return weight_of_unit<L>(distance, kInt8FullUnit); }
  /// 0...127: the exponential is at most 1. A key more than ln 254 = 5.54 nats under the maximum becomes 0.
  OCTET_HD I32 code(F32 weight) const { return L::nearest_i32(weight); }
  OCTET_HD Sum mass(F32 weight, I32 code, const Key&) const {
    return row_sum == SchemeOptions::RowSum::codes ? L::to_f32(code) : weight;
  }
  /// For loops that would ask the option of each key: where it has to be made a number, a code costs a GPU
  /// what an exponential does.
  static constexpr bool kAsksOptions = true;
  template <class Body>
  OCTET_HD void with_weights(const Body& body) const {
    with_weights_of(*this, body);
  }
  /// The same of a form of the scheme.
  template <class Form, class Body>
  static OCTET_HD void with_weights_of(const Form& form, const Body& body) {
    if (form.row_sum == SchemeOptions::RowSum::codes)
      body(Summing<Form, SchemeOptions::RowSum::codes>{form});
    else
      body(Summing<Form, SchemeOptions::RowSum::weights>{form});
  }
  OCTET_HD F32 lse(const State& state, const Row&) const { return Online<L>::lse(state, kInt8FullUnit); }

 private:
  template <class Form, SchemeOptions::RowSum kSum>
  struct Summing {
    const Form& scheme;
    OCTET_HD F32 weight(Score score, const typename Form::Step& step) const {
      return scheme.weight(score, step);
    }
    OCTET_HD I32 code(F32 weight) const { return scheme.code(weight); }
    OCTET_HD Sum mass(F32 weight, I32 code, const Key&) const {
      if constexpr (kSum == SchemeOptions::RowSum::codes)
        return L::to_f32(code);
      else
        return weight;
    }
  };
};

template <class L>
struct Int8HalfScheme : ScaledOperands<L, Formats{Operand::s8, Operand::f16, Operand::f16, VScale::at_fold}> {
  using Base = ScaledOperands<L, Formats{Operand::s8, Operand::f16, Operand::f16, VScale::at_fold}>;
  using typename Base::F32, typename Base::Key, typename Base::Row, typename Base::Score,
      typename Base::State, typename Base::Step, typename Base::Sum, typename Base::View;

  using Merge = Online<L>;
  static OCTET_HD Int8HalfScheme prepare(const Prepare& p) { return {{p.softmax_scale * kLog2E}}; }
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
