// Scheme `standard`: attention as a chain of f16 operations. Scores are stored in f16, softmax is computed in
// f32 from them, P is stored in f16. What flash attention is compared with, here in rounding:
// FlashAttention-3, Table 3.
#pragma once
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"
#include "numerics/formats.h"

namespace octet {

template <class L>
struct StandardScheme {
  using F32 = typename L::F32;
  using Acc = F32;
  using PvAcc = F32;
  using Score = F32;
  using Code = F32;
  using Bias = F32;
  static constexpr Operand kQk = Operand::f32, kV = Operand::f32;

  struct Sum {
    F32 peak, sum;  ///< largest stored score, and the sum of the exponentials of their distances to it
  };

  F32 softmax_scale;

  static OCTET_HD StandardScheme prepare(const Prepare& p) { return {p.softmax_scale}; }
  OCTET_HD Bias bias(float b) const { return b; }
  /// One rounding: the scale and the bias are applied to the f32 accumulator of the product, then the score
  /// is stored.
  OCTET_HD Score score(Acc acc, Bias b) const { return round_to_f16(acc * softmax_scale + b); }

  OCTET_HD Sum softmax(const Score* score, std::int64_t keys, Code* p) const {
    Sum row{score[0], 0};
    for (std::int64_t j = 1; j < keys; ++j) row.peak = L::max(score[j], row.peak);
    for (std::int64_t j = 0; j < keys; ++j) {
      p[j] = exp2_poly((score[j] - row.peak) * kLog2E);
      row.sum += p[j];
    }
    for (std::int64_t j = 0; j < keys; ++j) p[j] = round_to_f16(p[j] / row.sum);
    return row;
  }
  OCTET_HD F32 finish(PvAcc pv, F32 /*v_scale*/) const { return pv; }
  OCTET_HD F32 lse(const Sum& row) const { return row.peak + log2_poly(row.sum) * kLn2; }
};

}  // namespace octet
