// What sums and largest sizes of channels become: means, and exponents of equalisation; a part of
// row_kernels.inl.
#pragma once
#include <cmath>

#include "quant/channel_exponent.h"
#include "quant/mean.h"
#include "quant/row_lanes.inl"

namespace octet::quant {
namespace {

/// Square roots, each rounded to nearest.
OCTET_HOST float root_of(float x) { return std::sqrt(x); }
template <class V>
OCTET_HOST V root_of(V x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return simd::cast<V>(_mm512_sqrt_ps(simd::cast<__m512>(x)));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32 && !simd::kIsPair<V>)
    return simd::cast<V>(_mm256_sqrt_ps(simd::cast<__m256>(x)));
#endif
  if constexpr (simd::kIsPair<V>) return {root_of(x.lo), root_of(x.hi)};
  if constexpr (sizeof(V) == 16) return simd::cast<V>(_mm_sqrt_ps(simd::cast<__m128>(x)));
}

/// L: the lane of one register.
template <class L>
struct RowChannels {
  static void means(float* sum, float divisor, std::int64_t channels) {
    each<L>(channels, [=](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      Lane::store(sum + c, mean_of_scaled<Lane>(Lane::load(sum + c), divisor));
    });
  }

  static bool scale_squares(float* sum, const std::int32_t* least, const std::int32_t* most, float* amax,
                            std::int64_t channels) {
    const auto exponent_of = [](auto lane, auto bits) {
      using Lane = decltype(lane);
      return Lane::sub_i32(Lane::sra_i32(bits, kF32MantissaBits), kF32Bias);
    };
    // 2^2k is the power of two in a channel's largest square: k.
    const auto half_exponent = [=](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      return Lane::sra_i32(exponent_of(lane, Lane::load(most + c)), 1);
    };
    std::int32_t bad = 0;
    each<L>(channels, [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      using I32 = typename Lane::I32;
      // note: the bits of NaN are beyond those of Inf, or negative, which `least` finds.
      const I32 low = Lane::load(least + c), smaller = Lane::min_i32(low, Lane::load(most + c)),
                size = size_bits<Lane>(Lane::load(sum + c));
      // amax^2 in [2^2k, 2^(2k + 2)) is still below its end when rounded, for amax is below its own by its
      // last place.
      const I32 scaled = Lane::sub_i32(exponent_of(lane, low), Lane::shl_i32(half_exponent(lane, c), 1));
      const I32 lower = Lane::min_i32(exponent_of(lane, smaller), scaled);
      const I32 wrong =
          Lane::select_i32(Lane::less_i32(size, kInfinity),
                           Lane::select_i32(Lane::less_i32(lower, kSmallestNormalExponent), 1, 0), 1);
      if constexpr (Lane::kWidth == 1)
        bad |= wrong;
      else
        bad |= simd::largest_lane(wrong);
    });
    if (bad != 0) return false;
    each<L>(channels, [=](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      const typename Lane::I32 k = half_exponent(lane, c);
      const auto power = [](auto exponent) {
        return Lane::from_bits(Lane::shl_i32(Lane::add_i32(exponent, kF32Bias), kF32MantissaBits));
      };
      Lane::store(sum + c, Lane::mul(Lane::load(sum + c), power(Lane::sub_i32(0, Lane::shl_i32(k, 1)))));
      Lane::store(amax + c, power(k));  // whose exponent is what counts
    });
    return true;
  }

  static void exponents(const float* sum, const float* amax, std::int64_t channels, std::int32_t* exponent) {
    constexpr std::int32_t kNone = -0x7fffffff - 1;
    typename L::I32 most = L::add_i32(typename L::I32{}, kNone);
    std::int32_t largest = kNone;
    each<L>(channels, [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      const typename Lane::F32 root = root_of(Lane::load(sum + c)), a = Lane::load(amax + c);
      const typename Lane::I32 order =
          Lane::select_i32(Lane::less(0.0f, a), ChannelExponents<Lane>::norm_order(root, a), kNone);
      Lane::store(exponent + c, order);
      if constexpr (Lane::kWidth == 1)
        largest = Lane::max_i32(largest, order);
      else
        most = Lane::max_i32(most, order);
    });
    largest = ScalarLane::max_i32(largest, simd::largest_lane(most));
    each<L>(channels, [=](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      using I32 = typename Lane::I32;
      const I32 of_largest = Lane::add_i32(I32{}, largest);
      Lane::store(exponent + c, ChannelExponents<Lane>::exponent(Lane::load(exponent + c), of_largest,
                                                                 Lane::load(amax + c)));
    });
  }
};

}  // namespace
}  // namespace octet::quant
