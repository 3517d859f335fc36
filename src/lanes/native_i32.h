// Verbs of lanes/scalar.h for i32 and u32 in one register.
#pragma once
#include <cstdint>
#include <type_traits>

#include "lanes/native_register.h"

namespace octet::simd {

/// Bits of another type of the same width.
template <class T>
struct Cast {
  template <class V>
  OCTET_HD auto operator()(V a) const {
    return cast<Like<T, V>>(a);
  }
};

struct MinI32 {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
    return a < b ? a : b;
  }
};

struct MaxI32 {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
    return a > b ? a : b;
  }
};

/// a b for 0 <= a, b < 2^15: as pairs of 16-bit numbers, whose upper ones are 0. One operation where the full
/// product takes two.
struct MulU15 {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
#if defined(__AVX512BW__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_madd_epi16(cast<__m512i>(a), cast<__m512i>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_madd_epi16(cast<__m256i>(a), cast<__m256i>(b)));
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16) return cast<V>(_mm_madd_epi16(cast<__m128i>(a), cast<__m128i>(b)));
#endif
    return a * b;
  }
};

/// Upper halves of the 64-bit products. The instructions multiply the even lanes: the odd ones are moved
/// there, and their upper halves lie in the right place at once.
struct MulHigh {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
    constexpr bool kSigned = std::is_signed_v<Element<V>>;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      const __m512i x = cast<__m512i>(a), y = cast<__m512i>(b);
      const __m512i x_odd = _mm512_srli_epi64(x, 32), y_odd = _mm512_srli_epi64(y, 32);
      const __m512i even = _mm512_srli_epi64(kSigned ? _mm512_mul_epi32(x, y) : _mm512_mul_epu32(x, y), 32);
      const __m512i odd = kSigned ? _mm512_mul_epi32(x_odd, y_odd) : _mm512_mul_epu32(x_odd, y_odd);
      return cast<V>(_mm512_mask_mov_epi32(even, 0xaaaa, odd));
    }
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      const __m256i x = cast<__m256i>(a), y = cast<__m256i>(b);
      const __m256i x_odd = _mm256_srli_epi64(x, 32), y_odd = _mm256_srli_epi64(y, 32);
      const __m256i even = _mm256_srli_epi64(kSigned ? _mm256_mul_epi32(x, y) : _mm256_mul_epu32(x, y), 32);
      const __m256i odd = kSigned ? _mm256_mul_epi32(x_odd, y_odd) : _mm256_mul_epu32(x_odd, y_odd);
      return cast<V>(_mm256_blend_epi32(even, odd, 0xaa));
    }
#endif
    using Wide = std::conditional_t<kSigned, std::int64_t, std::uint64_t>;
    V out{};
    for (int i = 0; i < kLanesOf<V>; ++i) out[i] = static_cast<Element<V>>((Wide{a[i]} * Wide{b[i]}) >> 32);
    return out;
  }
};

/// a << s, 0 from 32 on.
struct ShiftLeft {
  template <class V, class S>
  OCTET_HD V operator()(V a, S s) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_sllv_epi32(cast<__m512i>(a), cast<__m512i>(s)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_sllv_epi32(cast<__m256i>(a), cast<__m256i>(s)));
#endif
    using U = Like<std::uint32_t, V>;
    return cast<V>(s < 32u ? cast<U>(a) << (s & 31u) : U{});
  }
};

/// a >> s: zeros come in for unsigned lanes, the sign for signed ones, as if the shift went on without end.
struct ShiftRight {
  template <class V, class S>
  OCTET_HD V operator()(V a, S s) const {
    constexpr bool kSigned = std::is_signed_v<Element<V>>;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      const __m512i x = cast<__m512i>(a), y = cast<__m512i>(s);
      return cast<V>(kSigned ? _mm512_srav_epi32(x, y) : _mm512_srlv_epi32(x, y));
    }
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      const __m256i x = cast<__m256i>(a), y = cast<__m256i>(s);
      return cast<V>(kSigned ? _mm256_srav_epi32(x, y) : _mm256_srlv_epi32(x, y));
    }
#endif
    if constexpr (kSigned)
      return a >> cast<V>(s < 32u ? s : fill<S>(31u));
    else
      return s < 32u ? a >> (s & 31u) : V{};
  }
};

/// Leading zeros; where no instruction counts them, from the exponent of the number as f32. Without the bits
/// that have a set one above them, its second highest is clear, and rounding does not carry. From 2^31 on the
/// conversion sees a negative number, whose sign makes the exponent too large.
struct LeadingZeros {
  template <class V>
  OCTET_HD V operator()(V a) const {
#if defined(__AVX512CD__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_lzcnt_epi32(cast<__m512i>(a)));
#endif
    using I = Like<std::int32_t, V>;
    constexpr std::int32_t kExponentOfTwo31 = kF32Bias + 31;
    const auto value = __builtin_convertvector(cast<I>(a & ~(a >> 1)), Like<float, V>);
    const I exponent = cast<I>(cast<V>(value) >> static_cast<std::uint32_t>(kF32MantissaBits));
    return cast<V>(MaxI32{}(MinI32{}(kExponentOfTwo31 - exponent, fill<I>(32)), I{}));
  }
};

}  // namespace octet::simd
