// Scheme `ivit`: I-ViT's Shiftmax. Scores are requantised to int8 with the range of all scores of the call;
// the exponential is a line between powers of two; P has 8 bits. Source: I-ViT, section 3.4 (Shiftmax), and
// its code for the dyadic requantiser and the constants.
#pragma once
#include "base/bits.h"
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"
#include "numerics/iexp.h"

namespace octet {

/// round(x m 2^-e) with m = round(31 bits of the ratio): how a factor below or above 1 is applied without a
/// division.
struct Dyadic {
  std::int64_t multiplier = 0;
  int shift = 1;

  /// ratio: positive and finite; below 2^-30 it counts as 0, since no int32 score would survive it.
  static OCTET_HD constexpr Dyadic of(double ratio) {
    if (!(ratio > exact_power_of_two(-30))) return {};
    int shift = 31;
    double mantissa = ratio;
    while (mantissa >= 1) mantissa *= 0.5, --shift;
    while (mantissa < 0.5) mantissa *= 2, ++shift;
    return {static_cast<std::int64_t>(floor_of(mantissa * exact_power_of_two(31) + 0.5)), shift};
  }
  /// |x| < 2^31 and the multiplier is at most 2^31: the product fits 64 bits.
  OCTET_HD constexpr std::int64_t operator()(std::int64_t x) const {
    const std::int64_t product = x * multiplier;
    return shift > 0 ? (product + (std::int64_t{1} << (shift - 1))) >> shift : product;
  }
};

template <class L>
struct IVitScheme {
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  using Acc = I32;
  using PvAcc = std::int64_t;
  using Score = I32;
  using Code = I32;
  using Bias = F32;
  static constexpr Operand kQk = Operand::s8, kV = Operand::s8;

  static constexpr int kPBits = 8;     ///< P = code / 2^7: 1 has the code 128
  static constexpr int kOctaves = 15;  ///< arguments below -15 octaves are held there
  static constexpr std::int64_t kLargestSum = 2147483647;
  static constexpr I32 kLargestScore = 127;

  struct Sum {
    I32 peak;
    std::int64_t sum;  ///< in units of exp(0) = -x0 2^15
  };

  double scale;  ///< real value of one accumulator unit, then of one score code
  Dyadic requantise;
  std::int64_t ln2 = -1;  ///< x0 = floor(-1 / s): one octave (log2 e comes from the shifts), at most -1

  static OCTET_HD IVitScheme prepare(const Prepare& p) {
    return {static_cast<double>(p.softmax_scale) * p.q_scale * p.k_scale, {}};
  }
  /// With the score range [-peak, peak]: codes are score / s with s = peak * scale / 127. Where the range is
  /// below 1e-7 nats all codes are 0, and s means nothing.
  OCTET_HD IVitScheme calibrated(Acc peak) const {
    constexpr double kLeast = 1e-9;  // of s: keeps x0 2^15 far inside 64 bits
    const double codes = kLargestScore / static_cast<double>(peak > 0 ? peak : 1);
    const double s = scale / codes;
    if (peak == 0 || s < kLeast) return {1, {}, -1};
    return {s, Dyadic::of(codes), static_cast<std::int64_t>(floor_of(-1 / s))};
  }
  OCTET_HD Bias bias(float b) const { return b; }
  OCTET_HD Score score(Acc acc, Bias /*none but hidden keys*/) const {
    return L::max_i32(-128, L::min_i32(static_cast<I32>(requantise(acc)), kLargestScore));
  }

  OCTET_HD Sum softmax(const Score* score, std::int64_t keys, Code* p) const {
    Sum row{score[0], 0};
    for (std::int64_t j = 1; j < keys; ++j) row.peak = L::max_i32(row.peak, score[j]);
    for (std::int64_t j = 0; j < keys; ++j) row.sum += exponential(score[j] - row.peak);
    if (row.sum > kLargestSum) row.sum = kLargestSum;
    const std::int64_t factor = row.sum > 0 ? kLargestSum / row.sum : 0;
    for (std::int64_t j = 0; j < keys; ++j)
      p[j] = static_cast<I32>((exponential(score[j] - row.peak) * factor) >> (32 - kPBits));
    return row;
  }
  OCTET_HD F32 finish(PvAcc pv, F32 v_scale) const {
    return static_cast<F32>(pv) * (v_scale * power_of_two(1 - kPBits));
  }
  OCTET_HD F32 lse(const Sum& row) const {
    const double one = static_cast<double>(exponential(0));
    return static_cast<F32>(scale * row.peak) +
           log2_poly(static_cast<F32>(static_cast<double>(row.sum) / one)) * kLn2;
  }

  /// x: distance to the row's largest code, <= 0. x log2(e) ~ x + x/2 - x/16, then the line between powers of
  /// two.
  OCTET_HD std::int64_t exponential(std::int64_t x) const {
    const std::int64_t octaves = x + (x >> 1) - (x >> 4);
    const std::int64_t held = octaves > kOctaves * ln2 ? octaves : kOctaves * ln2;
    const std::int64_t q = held / ln2, r = held - q * ln2;
    const std::int64_t e = ((r - 2 * ln2) << kOctaves) >> (q + 1);
    return e > 0 ? e : 0;
  }
};

}  // namespace octet
