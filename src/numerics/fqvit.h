// Scheme `fqvit`: FQ-ViT's log-int-softmax on exact int32 scores. P is a power of two with a 4-bit exponent,
// so that P V is shifts of V; the sum of P is not 1, for nothing renormalises it. Source: FQ-ViT, section 3.3
// (Log-Int-Softmax), with I-BERT's i-exp.
#pragma once
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"
#include "numerics/iexp.h"

namespace octet {

template <class L>
struct FqVitScheme {
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = I32;
  using PvAcc = std::int64_t;
  using Score = I32;
  using Code = I32;
  using Bias = F32;
  static constexpr Operand kQk = Operand::s8, kV = Operand::s8;

  static constexpr int kLargestShift = 15;  ///< 2^4 - 1: smaller weights are 0

  struct Sum {
    I32 peak;
    double sum;  ///< in units of exp(0)
  };

  double scale;  ///< real value of one score unit
  IExp exponential;

  static OCTET_HD FqVitScheme prepare(const Prepare& p) {
    const double scale = static_cast<double>(p.softmax_scale) * p.q_scale * p.k_scale;
    return {scale, IExp::of(scale)};
  }
  OCTET_HD Bias bias(float b) const { return b; }
  OCTET_HD Score score(Acc acc, Bias /*none but hidden keys*/) const { return acc; }

  OCTET_HD Sum softmax(const Score* score, std::int64_t keys, Code* p) const {
    Sum row{score[0], 0};
    for (std::int64_t j = 1; j < keys; ++j) row.peak = L::max_i32(row.peak, score[j]);
    const auto distance = [&](std::int64_t j) {
      return static_cast<double>(score[j]) - static_cast<double>(row.peak);
    };
    for (std::int64_t j = 0; j < keys; ++j) row.sum += exponential(distance(j));
    for (std::int64_t j = 0; j < keys; ++j) p[j] = power(row.sum, exponential(distance(j)));
    row.sum /= exponential(0);
    return row;
  }
  OCTET_HD F32 finish(PvAcc pv, F32 v_scale) const {
    return static_cast<F32>(pv) * (v_scale * power_of_two(-kLargestShift));
  }
  OCTET_HD F32 lse(const Sum& row) const {
    return static_cast<F32>(scale * row.peak) + log2_poly(static_cast<F32>(row.sum)) * kLn2;
  }

 private:
  /// 2^(15 - k), k the rounded logarithm of t = round(sum / e): log2's floor, one more from 1.5 times that
  /// power on. 0 where k has no 4-bit code.
  static OCTET_HD Code power(double sum, double e) {
    constexpr double kBeyond = 1 << (kLargestShift + 2);
    const double ratio = e > 0 ? sum / e : kBeyond;
    const auto t = static_cast<I32>(floor_of((ratio < kBeyond ? ratio : kBeyond) + 0.5));  // at least 1
    I32 k = 0;
    while ((t >> (k + 1)) > 0) ++k;
    if (2 * t >= 3 * (I32{1} << k)) ++k;
    return k > kLargestShift ? 0 : I32{1} << (kLargestShift - k);
  }
};

}  // namespace octet
