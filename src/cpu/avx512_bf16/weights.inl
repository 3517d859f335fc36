// The softmax of plain scores with P in bf16.
#pragma once
#include "cpu/avx512/plain_weights.inl"

namespace octet::cpu {
namespace {

/// 2^f for f in [0, 1): coefficients of 1, f, f^2 and f^3 by Remez for the least relative error.
constexpr float kCubic[] = {9.999252186e-01f, 6.958335405e-01f, 2.260671554e-01f, 7.802452266e-02f};

/// The largest relative error of the cubic, looked for at multiples of 1/256.
constexpr double cubic_error() {
  constexpr double kStep = 1.0027112750502025;  // 2^(1/256): constexpr has no exp2
  double power = 1, largest = 0;
  for (int i = 0; i <= 256; ++i, power *= kStep) {
    const double f = i / 256.0, cubic = kCubic[0] + f * (kCubic[1] + f * (kCubic[2] + f * kCubic[3]));
    const double error = cubic / power - 1;
    largest = error > largest ? error : -error > largest ? -error : largest;
  }
  return largest;
}

class HalvesSoftmax : public PlainRow {
 public:
  static constexpr Operand kP = Operand::bf16;
  /// Of a weight, relatively.
  static constexpr double kError = 7.6e-5;
  static_assert(cubic_error() + 4 * 0x1p-24 < kError,
                "the cubic and its roundings are within what is stated");

  /// P of the row's keys, weights 2^(sum * factor - origin) in bf16, 0 for a key that it does not see;
  /// returns the sum of the unrounded weights, by lanes. p: [key of the block], written in whole runs.
  static F32 weigh(const Row& row, float factor, float origin, std::byte* p) {
    const auto weight = [f = _mm512_set1_ps(factor), below = _mm512_set1_ps(-origin)](__m512 sum) {
      return exp2(_mm512_fmadd_ps(sum, f, below));
    };
    return weigh_runs(row, weight, [p](std::int64_t at, __m512 low, __m512 high) {
      _mm512_storeu_si512(p + 2 * at, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    });
  }

 private:
  /// 2^x for x <= 0, and 0 for what is below -126. NaN for NaN.
  /// note: chosen by a mask. Bounded below, hidden keys' weights were subnormals, each of which takes Intel's
  /// processors some hundred cycles: windows with a bias were twice as slow.
  static __m512 exp2(__m512 x) {
    constexpr int kDown = 1;  // f = x - floor(x)
    const __mmask16 counts = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExp2Least), _CMP_NLT_UQ);  // NaN does
    const __m512 f = _mm512_reduce_ps(x, kDown);
    __m512 q = _mm512_set1_ps(kCubic[3]);
    for (int i = 2; i >= 0; --i) q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(kCubic[i]));
    return _mm512_maskz_scalef_ps(counts, q, x);  // times 2^floor(x)
  }
};

}  // namespace
}  // namespace octet::cpu
