// The softmax of plain scores in AVX-512: a sum is read twice, for the row's largest and for its weight, and
// nothing is stored but P. For schemes whose scores are sums times one factor, and that let weights be off by
// kWeightError. Here: the runs of a row, and weights in f32.
#pragma once
#include <immintrin.h>

#include <cstdint>

#include "cpu/avx512/exp2.inl"
#include "cpu/bias.inl"
#include "lanes/native.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"

namespace octet::cpu {
namespace {

/// A row of sums by runs of keys: what the softmaxes of both formats of P do.
class PlainRow {
 protected:
  static constexpr std::int64_t kLanes = 16;
  static constexpr std::int64_t kRun = 2 * kLanes;  ///< keys of a store of P
  static constexpr int kLow = 0, kHigh = kLanes;    ///< the first key of a run's vectors

 public:
  using F32 = simd::RegisterOf<float, 64>;

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

 protected:
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

  /// store(at, low, high): the weights of a run's keys, 0 of those that the row does not see. Returns the sum
  /// of all, by lanes.
  template <class Weight, class Store>
  static F32 weigh_runs(const Row& row, const Weight& weight, const Store& store) {
    __m512 a{}, b{};
    for_runs(row, [&](const float* sums, std::int64_t at, auto seen) {
      const __m512 low = seen.only(weight(_mm512_loadu_ps(sums)), kLow),
                   high = seen.only(weight(_mm512_loadu_ps(sums + kLanes)), kHigh);
      a = _mm512_add_ps(a, low), b = _mm512_add_ps(b, high);
      store(at, low, high);
    });
    return reinterpret_cast<F32>(_mm512_add_ps(a, b));
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

 private:
  /// Keys [first, last) of a run, one a bit.
  static std::uint32_t bits(std::int64_t first, std::int64_t last) {
    const auto below = [](std::int64_t key) {
      const std::int64_t keys = key < 0 ? 0 : key < kRun ? key : kRun;
      return static_cast<std::uint32_t>((std::uint64_t{1} << keys) - 1);
    };
    return below(last) & ~below(first);
  }
};

/// Weights and P in f32: exp2_poly's polynomial with fused multiply-adds, which round less often.
class FloatSoftmax : public PlainRow {
 public:
  static constexpr Operand kP = Operand::f32;
  static constexpr double kError = kFusedExp2Error;  ///< of a weight, relatively

  /// P of the row's keys, weights 2^(sum * factor - origin), 0 for a key that it does not see; returns their
  /// sum, by lanes. p: [key of the block], written in whole runs.
  static F32 weigh(const Row& row, float factor, float origin, std::byte* p) {
    // The product rounds before the origin, which has rounded so, is taken off: the largest key's weight
    // is 1.
    const auto weight = [f = _mm512_set1_ps(factor), from = _mm512_set1_ps(origin)](__m512 sum) {
      return exp2_fused(_mm512_sub_ps(_mm512_mul_ps(sum, f), from));
    };
    return weigh_runs(row, weight, [p](std::int64_t at, __m512 low, __m512 high) {
      _mm512_storeu_ps(p + 4 * at, low);
      _mm512_storeu_ps(p + 4 * (at + kLanes), high);
    });
  }
};

}  // namespace
}  // namespace octet::cpu
