// Scheme `f32`: FlashAttention in f32. The simplest scheme, and the pattern for the others.
// Source: FlashAttention-2, Algorithm 1. Specification: docs/numerics/f32.md.
#pragma once
#include "numerics/plain.h"

namespace octet {

template <class L>
struct F32Scheme : PlainOperands<L> {
  using F32 = typename L::F32;
  /// A kernel's weights may be off by so much, relatively: what the bounds count of any lane's exponential.
  static constexpr double kWeightError = kLaneExp2Error;

  static OCTET_HD F32Scheme prepare(const Prepare& p) { return {{p.softmax_scale * kLog2E}}; }
  OCTET_HD F32 code(F32 weight) const { return weight; }
};

}  // namespace octet
