// Scales from largest sizes, and rows to codes in their own order; a part of row_kernels.inl.
#pragma once
#include "base/ask_for.h"
#include "quant/row_lanes.inl"

namespace octet::quant {
namespace {

template <class L>
struct RowCodes {
  static constexpr std::int64_t kWidth = L::kWidth;

  static void nearest_scales(const float* amax, std::int64_t count, float floor, float largest_code,
                             float* scale, float* rscale) {
    constexpr float kLeast = 0x1p-126f;
    const float smallest = floor > kLeast ? floor : kLeast;
    const float zero_rscale = floor > 0 ? 1 / floor : 0.0f;
    each<L>(count, [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      const typename Lane::F32 a = Lane::load(amax + c);
      const typename Lane::F32 s = Lane::div(a, largest_code), r = Lane::div(largest_code, a);
      const auto small = Lane::less(s, smallest), some = Lane::less(0.0f, a);
      Lane::store(scale + c, Lane::select(some, Lane::select(small, smallest, s), floor));
      Lane::store(rscale + c, Lane::select(some, Lane::select(small, 1 / smallest, r), zero_rscale));
    });
  }

  /// M g <= R with 24 bits of amax in M, and R / 16 those of the largest code, doubled where its mantissa is
  /// the smaller one: 29 bits. g is found bit by bit, from 16.
  static bool sixteenth_scales(const float* amax, std::int64_t count, float floor, float largest_code,
                               float* scale, float* rscale) {
    // So that scales, exponents and their reciprocals are normal numbers.
    constexpr float kLeastAmax = 0x1p-100f, kLeastCode = 2, kMostCode = 0x1p16f;
    if (!(largest_code >= kLeastCode && largest_code <= kMostCode)) return false;
    constexpr std::int32_t kMantissa = (1 << kF32MantissaBits) - 1, kTop = 1 << kF32MantissaBits;
    const std::int32_t code_bits = ScalarLane::bits(largest_code);
    const std::int32_t code_mantissa = (code_bits & kMantissa) | kTop,
                       code_exponent = code_bits >> kF32MantissaBits;
    const float zero_rscale = floor > 0 ? 1 / floor : 0.0f;
    std::int32_t tiny = 0;
    each<L>(count, [&](auto lane, std::int64_t c) {
      using Lane = decltype(lane);
      using I32 = typename Lane::I32;
      const typename Lane::F32 a = Lane::load(amax + c);
      const auto some = Lane::less(0.0f, a), small = Lane::less(a, kLeastAmax);
      const I32 bits = Lane::bits(a), mantissa = (bits & kMantissa) | kTop;
      const auto carries = Lane::less_i32(code_mantissa, mantissa);
      const I32 room = Lane::select_i32(carries, 32 * code_mantissa, 16 * code_mantissa);
      I32 g = Lane::add_i32(16, 0), product = Lane::shl_i32(mantissa, 4);
      for (std::int32_t bit = 8; bit != 0; bit /= 2) {
        const I32 more = Lane::add_i32(product, Lane::mul_i32(mantissa, bit));
        const auto fits = Lane::less_i32(more, Lane::add_i32(room, 1));
        product = Lane::select_i32(fits, more, product);
        g = Lane::select_i32(fits, Lane::add_i32(g, bit), g);
      }
      const I32 exponent =
          Lane::add_i32(Lane::sub_i32(Lane::sra_i32(bits, kF32MantissaBits), code_exponent - kF32Bias),
                        Lane::select_i32(carries, 1, 0));
      const typename Lane::F32 power = Lane::from_bits(Lane::shl_i32(exponent, kF32MantissaBits)),
                               g_f32 = Lane::to_f32(g);
      const typename Lane::F32 s = Lane::mul(power, Lane::div(16.0f, g_f32)),
                               r = Lane::div(Lane::mul(g_f32, 0.0625f), power);
      const typename Lane::F32 least = Lane::broadcast(floor);
      const auto below = Lane::less(s, floor);
      Lane::store(scale + c, Lane::select(some, Lane::select(below, least, s), least));
      Lane::store(rscale + c, Lane::select(some, Lane::select(below, zero_rscale, r), zero_rscale));
      const I32 bad = Lane::select_i32(some, Lane::select_i32(small, 1, 0), 0);
      if constexpr (Lane::kWidth == 1)
        tiny |= bad;
      else
        tiny |= simd::largest_lane(bad);
    });
    return tiny == 0;
  }

  /// Four registers: one of bytes.
  using Wide = VectorLane<32 < 4 * kWidth ? 4 * kWidth : 32, RowTag>;

  /// scaled(lane, x, row, c): what the code is nearest to, within +-127.5.
  template <class Source, class Scaled>
  static OCTET_HOST void encode_rows(const Rows& x, const Scaled& scaled, std::int8_t* out,
                                     std::int64_t out_stride) {
    const std::int64_t channels = x.channels, rows = x.count;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* from = stored<Source>(x, r);
      std::int8_t* to = out + r * out_stride;
      ask_for_half<Source>(x, r, Half::second);
      const auto put = [&](auto lane, std::int64_t c) {
        using Lane = decltype(lane);
        const auto v = Source::template load<Lane>(from + c);
        Lane::store(to + c, Lane::to_s8_i32(Lane::nearest_i32(scaled(lane, v, r, c))));
      };
      std::int64_t c = 0;
      for (; c + Wide::kWidth <= channels; c += Wide::kWidth) put(Wide{}, c);
      for (; c + kWidth <= channels; c += kWidth) put(L{}, c);
      for (; c < channels; ++c) put(ScalarLane{}, c);
    }
  }

  /// Codes of rows of kCount vectors of a wider lane, whose factors stay in registers.
  template <class Source, class Lane, int kCount, bool kMultiplies>
  static OCTET_HOST void codes_of(const Rows& x, const float* factor, const float* rscale, std::int8_t* out,
                                  std::int64_t out_stride) {
    typename Lane::F32 factors[kCount];
    for (int i = 0; kMultiplies && i < kCount; ++i) factors[i] = Lane::load(factor + i * Lane::kWidth);
    const std::int64_t rows = x.count;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* from = stored<Source>(x, r);
      const float by = rscale[r];
      ask_for_half<Source>(x, r, Half::second);
      for (int i = 0; i < kCount; ++i) {
        typename Lane::F32 v = Source::template load<Lane>(from + i * Lane::kWidth);
        if constexpr (kMultiplies) v = Lane::mul(v, factors[i]);
        Lane::store(out + r * out_stride + i * Lane::kWidth,
                    Lane::to_s8_i32(Lane::nearest_i32(Lane::mul(v, by))));
      }
    }
  }

  template <class Source, class Lane, int kCount>
  static OCTET_HOST void codes_of(const Rows& x, const float* factor, const float* rscale, std::int8_t* out,
                                  std::int64_t out_stride) {
    return factor ? codes_of<Source, Lane, kCount, true>(x, factor, rscale, out, out_stride)
                  : codes_of<Source, Lane, kCount, false>(x, nullptr, rscale, out, out_stride);
  }

  // note: a function each, as those of the other loops are: in one of all types g++ 12 made calls on f32 1 %
  // longer.
  template <class Source>
  static void codes_from(const Rows& x, const float* factor, const float* rscale, std::int8_t* out,
                         std::int64_t out_stride) {
    if constexpr (kWidth == 16) {
      using Narrow = VectorLane<Wide::kWidth / 2, RowTag>;
      if (x.channels == Narrow::kWidth)
        return codes_of<Source, Narrow, 1>(x, factor, rscale, out, out_stride);
      if (x.channels == Wide::kWidth) return codes_of<Source, Wide, 1>(x, factor, rscale, out, out_stride);
      if (x.channels == 2 * Wide::kWidth)
        return codes_of<Source, Wide, 2>(x, factor, rscale, out, out_stride);
    }
    if (factor)
      encode_rows<Source>(
          x,
          [&](auto lane, auto v, std::int64_t r, std::int64_t c) {
            using Lane = decltype(lane);
            return Lane::mul(Lane::mul(v, Lane::load(factor + c)), rscale[r]);
          },
          out, out_stride);
    else
      encode_rows<Source>(
          x, [&](auto, auto v, std::int64_t r, std::int64_t) { return v * rscale[r]; }, out, out_stride);
  }
  static void codes(const Rows& x, const float* factor, const float* rscale, std::int8_t* out,
                    std::int64_t out_stride) {
    from_any(x.dtype, [&](auto source) { codes_from<decltype(source)>(x, factor, rscale, out, out_stride); });
  }
  static void codes_by_channel(const FloatRows& x, const float* rscale, std::int8_t* out,
                               std::int64_t out_stride) {
    encode_rows<FromF32>(
        x,
        [&](auto lane, auto v, std::int64_t, std::int64_t c) {
          using Lane = decltype(lane);
          return Lane::min(Lane::max(Lane::mul(v, Lane::load(rscale + c)), -127.0f), 127.0f);
        },
        out, out_stride);
  }
};

}  // namespace
}  // namespace octet::quant
