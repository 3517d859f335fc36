// Scheme `ibert`: I-BERT's softmax on exact int32 scores. The exponential is i-exp, requantised to 16 bits; P
// has 8 bits. Source: I-BERT, section 3.4 and Algorithm 2; its code for the 16-bit step and the reciprocal.
#pragma once
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"
#include "numerics/iexp.h"

namespace octet {

template <class L>
struct IBertScheme {
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = I32;
  using PvAcc = std::int64_t;
  using Score = I32;
  using Code = I32;
  using Bias = F32;
  static constexpr Operand kQk = Operand::s8, kV = Operand::s8;

  static constexpr int kPBits = 8;             ///< P = code / 2^8: 1 has the code 256
  static constexpr double kExpUnit = 32767.0;  ///< the 16-bit code of exp(0), which is the largest of any row

  struct Sum {
    I32 peak;
    std::int64_t sum;  ///< of 16-bit exponentials, below 2^15 keys
  };

  double scale;  ///< real value of one score unit
  IExp exponential;

  static OCTET_HD IBertScheme prepare(const Prepare& p) {
    const double scale = static_cast<double>(p.softmax_scale) * p.q_scale * p.k_scale;
    return {scale, IExp::of(scale)};
  }
  OCTET_HD Bias bias(float b) const { return b; }
  OCTET_HD Score score(Acc acc, Bias /*none but hidden keys*/) const { return acc; }

  OCTET_HD Sum softmax(const Score* score, std::int64_t keys, Code* p) const {
    Sum row{score[0], 0};
    for (std::int64_t j = 1; j < keys; ++j) row.peak = L::max_i32(row.peak, score[j]);
    const double one = exponential(0);
    for (std::int64_t j = 0; j < keys; ++j) {
      const double e = exponential(static_cast<double>(score[j]) - static_cast<double>(row.peak));
      p[j] = L::to_i32(static_cast<F32>(floor_of(e * (kExpUnit / one) + 0.5)));
      row.sum += p[j];
    }
    // sum >= 32767, so factor < 2^18 and the products stay below 2^33.
    const std::int64_t factor = (std::int64_t{1} << 32) / row.sum;
    for (std::int64_t j = 0; j < keys; ++j) p[j] = static_cast<I32>((p[j] * factor) >> (32 - kPBits));
    return row;
  }
  OCTET_HD F32 finish(PvAcc pv, F32 v_scale) const {
    return static_cast<F32>(pv) * (v_scale * power_of_two(-kPBits));
  }
  OCTET_HD F32 lse(const Sum& row) const {
    return static_cast<F32>(scale * row.peak) +
           log2_poly(static_cast<F32>(static_cast<double>(row.sum) / kExpUnit)) * kLn2;
  }
};

}  // namespace octet
