// Verbs of lanes/scalar.h for u16 in one register.
#pragma once
#include <cstdint>

#include "lanes/native_register.h"
#include "lanes/native_widths.h"

namespace octet::simd {

struct AddSaturated {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_adds_epu16(cast<__m512i>(a), cast<__m512i>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_adds_epu16(cast<__m256i>(a), cast<__m256i>(b)));
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16) return cast<V>(_mm_adds_epu16(cast<__m128i>(a), cast<__m128i>(b)));
#endif
    const V sum = a + b;
    return sum < a ? ~V{} : sum;
  }
};

struct MulHighU16 {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_mulhi_epu16(cast<__m512i>(a), cast<__m512i>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_mulhi_epu16(cast<__m256i>(a), cast<__m256i>(b)));
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16) return cast<V>(_mm_mulhi_epu16(cast<__m128i>(a), cast<__m128i>(b)));
#endif
    V out{};
    for (int i = 0; i < kLanesOf<V>; ++i)
      out[i] = static_cast<std::uint16_t>((std::uint32_t{a[i]} * b[i]) >> 16);
    return out;
  }
};

/// round(a b / 2^15), ties upwards, for a, b < 2^15.
struct MulRounded {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_mulhrs_epi16(cast<__m512i>(a), cast<__m512i>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_mulhrs_epi16(cast<__m256i>(a), cast<__m256i>(b)));
    if constexpr (sizeof(V) == 16) return cast<V>(_mm_mulhrs_epi16(cast<__m128i>(a), cast<__m128i>(b)));
#endif
    V out{};
    for (int i = 0; i < kLanesOf<V>; ++i)
      out[i] = static_cast<std::uint16_t>((std::uint32_t{a[i]} * b[i] + 0x4000u) >> 15);
    return out;
  }
};

/// (a + b + 1) / 2.
struct Average {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_avg_epu16(cast<__m512i>(a), cast<__m512i>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_avg_epu16(cast<__m256i>(a), cast<__m256i>(b)));
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16) return cast<V>(_mm_avg_epu16(cast<__m128i>(a), cast<__m128i>(b)));
#endif
    return (a | b) - ((a ^ b) >> 1);  // a + b = 2 (a | b) - (a ^ b)
  }
};

/// u16 a >> s with an amount a lane, 0 from 16 on. AVX2 shifts 32-bit lanes by amounts of their own, not
/// 16-bit ones: interleaved with zeros they are such lanes, and packing undoes the interleaving.
struct ShiftRightU16 {
  template <class V>
  OCTET_HD V operator()(V a, V s) const {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_srlv_epi16(cast<__m512i>(a), cast<__m512i>(s)));
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_srlv_epi16(cast<__m256i>(a), cast<__m256i>(s)));
    if constexpr (sizeof(V) == 16) return cast<V>(_mm_srlv_epi16(cast<__m128i>(a), cast<__m128i>(s)));
#elif defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      const __m256i x = cast<__m256i>(a), by = cast<__m256i>(s), zero = _mm256_setzero_si256();
      const __m256i low = _mm256_srlv_epi32(_mm256_unpacklo_epi16(x, zero), _mm256_unpacklo_epi16(by, zero));
      const __m256i high = _mm256_srlv_epi32(_mm256_unpackhi_epi16(x, zero), _mm256_unpackhi_epi16(by, zero));
      return cast<V>(_mm256_packus_epi32(low, high));
    }
    if constexpr (sizeof(V) == 16) {
      const __m256i wide =
          _mm256_srlv_epi32(_mm256_cvtepu16_epi32(cast<__m128i>(a)), _mm256_cvtepu16_epi32(cast<__m128i>(s)));
      return cast<V>(_mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
    }
#endif
    // note: the amount is masked, for a shift by 16 or more means nothing even where it is not chosen.
    const V fits = cast<V>(s < std::uint16_t{16});
    return (a >> (s & std::uint16_t{15})) & fits;
  }
};

}  // namespace octet::simd
