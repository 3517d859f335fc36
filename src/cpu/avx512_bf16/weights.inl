// The softmax of plain scores with P in bf16: a sum is read twice, for the row's largest and for its weight,
// and nothing is stored but P. For schemes whose scores are sums times one factor, and that let weights be
// off by kWeightError.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "cpu/bias.inl"
#include "lanes/native.h"
#include "numerics/exp2.h"

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

class HalvesSoftmax {
  static constexpr std::int64_t kLanes = 16;

 public:
  using F32 = simd::RegisterOf<float, 64>;
  /// Of a weight, relatively.
  static constexpr double kError = 7.6e-5;
  static_assert(cubic_error() + 4 * 0x1p-24 < kError,
                "the cubic and its roundings are within what is stated");

  /// One row against a key block, of which P is wanted of keys [low, high).
  struct Row {
    const float* sums;  ///< [key of the block]
    KeySpan keys;       ///< that the row sees
    std::int64_t low, high;
  };

  /// The largest of the row's sums, by lanes; NaN is left out.
  static F32 largest(const Row& row) {
    __m512 a = _mm512_set1_ps(kMinusInfinity), b = a;
    for_runs(row, [&](const float* sums, std::int64_t, auto seen) {
      a = seen.larger(a, _mm512_loadu_ps(sums), kLow);
      b = seen.larger(b, _mm512_loadu_ps(sums + kLanes), kHigh);
    });
    return reinterpret_cast<F32>(_mm512_max_ps(a, b));
  }

  /// P of the row's keys, weights 2^(sum * factor - origin) in bf16, 0 for a key that it does not see;
  /// returns the sum of the unrounded weights, by lanes. p: [key of the block], written in whole runs.
  static F32 weigh(const Row& row, float factor, float origin, std::byte* p) {
    const __m512 f = _mm512_set1_ps(factor), below = _mm512_set1_ps(-origin);
    __m512 a{}, b{};
    for_runs(row, [&](const float* sums, std::int64_t at, auto seen) {
      const __m512 low = seen.only(exp2(_mm512_fmadd_ps(_mm512_loadu_ps(sums), f, below)), kLow);
      const __m512 high = seen.only(exp2(_mm512_fmadd_ps(_mm512_loadu_ps(sums + kLanes), f, below)), kHigh);
      a = _mm512_add_ps(a, low), b = _mm512_add_ps(b, high);
      _mm512_storeu_si512(p + 2 * at, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
    });
    return reinterpret_cast<F32>(_mm512_add_ps(a, b));
  }

 private:
  static constexpr std::int64_t kRun = 2 * kLanes;  ///< keys of a store of P
  static constexpr int kLow = 0, kHigh = kLanes;    ///< the first key of a run's vectors

  /// A run that the row sees wholly, or in part.
  struct All {
    static __m512 larger(__m512 most, __m512 x, int) { return _mm512_max_ps(x, most); }
    static __m512 only(__m512 x, int) { return x; }
  };
  struct Some {
    std::uint32_t keys;
    __mmask16 lanes(int half) const { return static_cast<__mmask16>(keys >> half); }
    __m512 larger(__m512 most, __m512 x, int half) const {
      return _mm512_mask_max_ps(most, lanes(half), x, most);
    }
    __m512 only(__m512 x, int half) const { return _mm512_maskz_mov_ps(lanes(half), x); }
  };

  /// Keys [first, last) of a run, one a bit.
  static std::uint32_t bits(std::int64_t first, std::int64_t last) {
    const auto below = [](std::int64_t key) {
      const std::int64_t keys = key < 0 ? 0 : key < kRun ? key : kRun;
      return static_cast<std::uint32_t>((std::uint64_t{1} << keys) - 1);
    };
    return below(last) & ~below(first);
  }

  template <class Body>
  static void for_runs(const Row& row, const Body& body) {
    for (std::int64_t at = row.low / kRun * kRun; at < row.high; at += kRun) {
      if (row.keys.first <= at && at + kRun <= row.keys.last)
        body(row.sums + at, at, All{});
      else
        body(row.sums + at, at, Some{bits(row.keys.first - at, row.keys.last - at)});
    }
  }

  /// 2^x for x <= 0, and 2^-126 for what is below; NaN for NaN.
  static __m512 exp2(__m512 x) {
    constexpr int kDown = 1;  // f = x - floor(x)
    const __m512 bounded = _mm512_max_ps(_mm512_set1_ps(kExp2Least), x);
    const __m512 f = _mm512_reduce_ps(bounded, kDown);
    __m512 q = _mm512_set1_ps(kCubic[3]);
    for (int i = 2; i >= 0; --i) q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(kCubic[i]));
    return _mm512_scalef_ps(q, bounded);  // times 2^floor(x)
  }
};

}  // namespace
}  // namespace octet::cpu
