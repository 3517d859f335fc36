// Rows to codes in the order of base/packed_codes.h; a part of row_kernels.inl. A vector of codes is of four
// tokens and as many channels as a vector has floats: in each of its 16 bytes four channels of the first
// token, of the second, of the third and of the fourth.
#pragma once
#include <immintrin.h>

#include "quant/row_lanes.inl"

namespace octet::quant {
namespace {

/// Four vectors of integers as one of bytes, saturated, in turns in every 16 bytes.
template <class I32>
OCTET_HOST I32 bytes_of([[maybe_unused]] const I32 (&x)[4]) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(I32) == 64) {
    const auto pair = [&](int i) {
      return _mm512_packs_epi32(simd::cast<__m512i>(x[i]), simd::cast<__m512i>(x[i + 1]));
    };
    return simd::cast<I32>(_mm512_packs_epi16(pair(0), pair(2)));
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(I32) == 32) {
    const auto pair = [&](int i) {
      return _mm256_packs_epi32(simd::cast<__m256i>(x[i]), simd::cast<__m256i>(x[i + 1]));
    };
    return simd::cast<I32>(_mm256_packs_epi16(pair(0), pair(2)));
  }
#endif
}

/// L: the lane of one register.
template <class L>
struct PackedRows {
  static constexpr std::int64_t kWidth = L::kWidth;
  static constexpr int kTokens = 4;                                  ///< of a vector of codes
  static constexpr int kParts = static_cast<int>(kWidth) / kTokens;  ///< of 16 bytes
  using I32 = typename L::I32;
  using F32 = typename L::F32;
  using Bytes = simd::RegisterOf<std::uint8_t, 4 * kWidth>;

  /// Four tokens on their way. note: in variables of their own, which no store of bytes might change.
  template <class Source>
  struct Four {
    const typename Source::Stored* row[kTokens];
    F32 rscale[kTokens];

    OCTET_HOST Four(const typename Source::Stored* first, std::int64_t stride, const float* rscales) {
      for (int i = 0; i < kTokens; ++i) {
        row[i] = first + i * stride;
        rscale[i] = L::broadcast(rscales[i]);
      }
    }
  };
  /// Channels from c on.
  template <class Source, bool kMultiplies>
  static OCTET_HOST I32 codes(const Four<Source>& tokens, const float* factor, std::int64_t c) {
    F32 by{};
    if constexpr (kMultiplies) by = L::load(factor + c);
    I32 codes[kTokens];
    for (int i = 0; i < kTokens; ++i) {
      F32 v = Source::template load<L>(tokens.row[i] + c);
      if constexpr (kMultiplies) v = v * by;
      codes[i] = L::nearest_i32(v * tokens.rscale[i]);
    }
    return bytes_of(codes);
  }

  /// 16 bytes at kA, kB of a and kC, kD of b (in 64 bytes), or kA of a and kC of b (in 32).
  template <int kA, int kB, int kC, int kD>
  static OCTET_HOST I32 parts_of(I32 a, I32 b) {
    using U64 = simd::RegisterOf<std::uint64_t, 4 * kWidth>;
    const U64 x = simd::cast<U64>(a), y = simd::cast<U64>(b);
    if constexpr (kParts == 4)
      return simd::cast<I32>(__builtin_shufflevector(x, y, 2 * kA, 2 * kA + 1, 2 * kB, 2 * kB + 1, 2 * kC + 8,
                                                     2 * kC + 9, 2 * kD + 8, 2 * kD + 9));
    else
      return simd::cast<I32>(__builtin_shufflevector(x, y, 2 * kA, 2 * kA + 1, 2 * kC + 4, 2 * kC + 5));
  }

  /// row_largest() asks for the other half.
  template <class Source>
  static OCTET_HOST void ask_for_next(const Rows& x, std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) ask_for_half<Source>(x, r, Half::second);
  }

  template <class Source, bool kMultiplies>
  static void columns_of(const Rows& x, const float* factor, const float* rscale, std::uint32_t flip,
                         std::byte* out) {
    constexpr std::int64_t kVector = 4 * kWidth;
    const auto flips = static_cast<std::int32_t>(flip);
    const std::int64_t count = x.count, channels = x.channels, stride = x.stride;
    for (std::int64_t r = 0; r < count; r += kWidth) {
      ask_for_next<Source>(x, r, kWidth);
      const auto* first = stored<Source>(x, r);
      for (std::int64_t c = 0; c < channels; c += kWidth, out += kParts * kVector) {
        I32 part[kParts];
        for (std::int64_t i = 0; i < kParts; ++i)
          part[i] = codes<Source, kMultiplies>(
              Four<Source>(first + kTokens * i * stride, stride, rscale + r + kTokens * i), factor, c);
        const auto put = [&](int i, I32 groups) { simd::store(out + i * kVector, groups ^ flips); };
        if constexpr (kParts == 4) {
          const I32 low_01 = parts_of<0, 1, 0, 1>(part[0], part[1]),
                    high_01 = parts_of<2, 3, 2, 3>(part[0], part[1]),
                    low_23 = parts_of<0, 1, 0, 1>(part[2], part[3]),
                    high_23 = parts_of<2, 3, 2, 3>(part[2], part[3]);
          put(0, parts_of<0, 2, 0, 2>(low_01, low_23)), put(1, parts_of<1, 3, 1, 3>(low_01, low_23));
          put(2, parts_of<0, 2, 0, 2>(high_01, high_23)), put(3, parts_of<1, 3, 1, 3>(high_01, high_23));
        } else {
          put(0, parts_of<0, 0, 0, 0>(part[0], part[1])), put(1, parts_of<1, 0, 1, 0>(part[0], part[1]));
        }
      }
    }
  }

  /// Byte i of token k from byte k of token i, in every 16 bytes.
  template <int... kAt>
  static OCTET_HOST Bytes turned(Bytes x, std::integer_sequence<int, kAt...>) {
    return __builtin_shufflevector(x, x, (kAt / 16 * 16 + kAt % 4 * 4 + kAt % 16 / 4)...);
  }

  template <class Source, bool kMultiplies>
  static void quads_of(const Rows& x, const float* factor, const float* rscale, std::byte* out) {
    const std::int64_t count = x.count, channels = x.channels, stride = x.stride;
    for (std::int64_t r = 0; r < count; r += kTokens) {
      ask_for_next<Source>(x, r, kTokens);
      const Four<Source> tokens(stored<Source>(x, r), stride, rscale + r);
      for (std::int64_t c = 0; c < channels; c += kWidth, out += 4 * kWidth)
        simd::store(out, turned(simd::cast<Bytes>(codes<Source, kMultiplies>(tokens, factor, c)),
                                std::make_integer_sequence<int, sizeof(Bytes)>{}));
    }
  }

  static void columns(const Rows& x, const float* factor, const float* rscale, std::uint32_t flip,
                      std::byte* out) {
    from_any(x.dtype, [&](auto source) {
      using Source = decltype(source);
      return factor ? columns_of<Source, true>(x, factor, rscale, flip, out)
                    : columns_of<Source, false>(x, factor, rscale, flip, out);
    });
  }
  static void quads(const Rows& x, const float* factor, const float* rscale, std::byte* out) {
    from_any(x.dtype, [&](auto source) {
      using Source = decltype(source);
      return factor ? quads_of<Source, true>(x, factor, rscale, out)
                    : quads_of<Source, false>(x, factor, rscale, out);
    });
  }

  static constexpr PackedCodesKernels table() {
    if constexpr (simd::kIsPair<F32>)
      return {};
    else
      return {kWidth, columns, quads};
  }
};

}  // namespace
}  // namespace octet::quant
