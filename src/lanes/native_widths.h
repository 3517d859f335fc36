// From lanes of one width to those of another, in one register or two.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "lanes/native_i32.h"
#include "lanes/native_register.h"
#include "lanes/pair.h"

namespace octet::simd {

/// Twice as wide lanes, in one register.
template <class T, class V>
OCTET_HD auto widened_in_register(V a) {
  using Out = Like<T, V>;
#if defined(__AVX512F__)
  if constexpr (sizeof(Out) == 64 && std::is_same_v<Element<V>, std::uint16_t>)
    return cast<Out>(_mm512_cvtepu16_epi32(cast<__m256i>(a)));
  else if constexpr (sizeof(Out) == 64 && std::is_same_v<Element<V>, std::int32_t>)
    return cast<Out>(_mm512_cvtepi32_epi64(cast<__m256i>(a)));
  else
#endif
#if defined(__AVX2__)
      if constexpr (sizeof(Out) == 32 && std::is_same_v<Element<V>, std::uint16_t>)
    return cast<Out>(_mm256_cvtepu16_epi32(cast<__m128i>(a)));
  else if constexpr (sizeof(Out) == 32 && std::is_same_v<Element<V>, std::int32_t>)
    return cast<Out>(_mm256_cvtepi32_epi64(cast<__m128i>(a)));
  else
#endif
    return __builtin_convertvector(a, Out);
}

/// Twice as wide lanes: as many registers again, or one where it holds them.
template <class T, class V>
OCTET_HD auto widened(V a) {
  if constexpr (kIsPair<V>)
    return join(widened<T>(a.lo), widened<T>(a.hi));
  else if constexpr (kLanesOf<V> * sizeof(T) > kRegisterBytes)
    return pair_of(widened<T>(low_half(a)), widened<T>(high_half(a)));
  else
    return widened_in_register<T>(a);
}

/// The full products of 32-bit lanes.
template <class V>
OCTET_HD auto full_product(V a, V b) {
  if constexpr (kIsPair<V>) {
    return join(full_product(a.lo, b.lo), full_product(a.hi, b.hi));
  } else if constexpr (2 * sizeof(V) > kRegisterBytes) {
    return pair_of(full_product(low_half(a), low_half(b)), full_product(high_half(a), high_half(b)));
  } else {
    using Wide = Like<std::int64_t, V>;
    const Wide x = widened_in_register<std::int64_t>(a), y = widened_in_register<std::int64_t>(b);
#if defined(__AVX512F__)
    if constexpr (sizeof(Wide) == 64) return cast<Wide>(_mm512_mul_epi32(cast<__m512i>(x), cast<__m512i>(y)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(Wide) == 32) return cast<Wide>(_mm256_mul_epi32(cast<__m256i>(x), cast<__m256i>(y)));
#endif
    return x * y;
  }
}

/// Bytes as i32 lanes of one register. note: compilers take a vector of 8 bytes apart to convert it.
template <class V>
OCTET_HD auto widened_bytes(V bytes) {
  using Out = Like<std::int32_t, V>;
#if defined(__AVX512F__)
  if constexpr (sizeof(Out) == 64)
    return cast<Out>(_mm512_cvtepu8_epi32(cast<__m128i>(bytes)));
  else
#endif
#if defined(__AVX2__)
      if constexpr (sizeof(Out) == 32)
    return cast<Out>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(cast<long long>(bytes))));
  else
#endif
    return __builtin_convertvector(bytes, Out);
}

/// Whether there is an instruction for from_f16().
#if defined(__AVX512F__) || defined(__F16C__)
inline constexpr bool kConvertsF16 = true;
#else
inline constexpr bool kConvertsF16 = false;
#endif

/// Codes of f16 in one register's lanes as f32: all that f32_from_f16() of numerics/formats.h gives, but that
/// a signalling NaN becomes a quiet one.
template <class V>
OCTET_HD auto from_f16([[maybe_unused]] V codes) {
  using Out [[maybe_unused]] = Like<float, V>;
#if defined(__AVX512F__)
  if constexpr (sizeof(Out) == 64) return cast<Out>(_mm512_cvtph_ps(cast<__m256i>(codes)));
#endif
#if defined(__F16C__)
  if constexpr (sizeof(Out) == 32) return cast<Out>(_mm256_cvtph_ps(cast<__m128i>(codes)));
#endif
}

/// f32 lanes as codes of f16: all that f16_from_f32() of numerics/formats.h gives, but that a NaN keeps a
/// part of its payload.
template <class V>
OCTET_HD auto to_f16([[maybe_unused]] V x) {
  if constexpr (kIsPair<V>) {
    return join(to_f16(x.lo), to_f16(x.hi));
  } else {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64)
      return cast<Like<std::uint16_t, V>>(_mm512_cvtps_ph(cast<__m512>(x), _MM_FROUND_TO_NEAREST_INT));
#endif
#if defined(__F16C__)
    if constexpr (sizeof(V) == 32)
      return cast<Like<std::uint16_t, V>>(_mm256_cvtps_ph(cast<__m256>(x), _MM_FROUND_TO_NEAREST_INT));
#endif
  }
}

/// The upper 16 bits of each lane of a, then of b.
template <class V, int... kAt>
OCTET_HD auto upper_halves(V a, V b, std::integer_sequence<int, kAt...>) {
  using Halves = RegisterOf<std::uint16_t, static_cast<int>(sizeof(V))>;
  return __builtin_shufflevector(cast<Halves>(a), cast<Halves>(b), (2 * kAt + 1)...);
}
/// The upper 16 bits of each lane.
template <class V>
OCTET_HD auto upper_u16(V a) {
  if constexpr (!kIsPair<V>)
    return __builtin_convertvector(a >> 16, Like<std::uint16_t, V>);
  else if constexpr (kIsPair<decltype(a.lo)>)
    return join(upper_u16(a.lo), upper_u16(a.hi));
  else
    return upper_halves(a.lo, a.hi, std::make_integer_sequence<int, 2 * kLanesOf<decltype(a.lo)>>{});
}

/// i32 lanes clamped to [0, 65535].
template <class V>
OCTET_HD auto clamped_u16(V a) {
  using Out = std::uint16_t;
#if defined(__AVX2__)
  if constexpr (kIsPair<V> && kRegisterBytes == 32 && sizeof(V) == 64) {
    // The instruction packs each 128 bits of its operands by themselves.
    const __m256i packed = _mm256_packus_epi32(cast<__m256i>(a.lo), cast<__m256i>(a.hi));
    return cast<RegisterOf<Out, 32>>(_mm256_permute4x64_epi64(packed, 0xd8));
  } else if constexpr (!kIsPair<V> && sizeof(V) == 32) {
    return cast<RegisterOf<Out, 16>>(
        _mm_packus_epi32(cast<__m128i>(low_half(a)), cast<__m128i>(high_half(a))));
  } else
#endif
#if defined(__AVX512BW__)
      if constexpr (!kIsPair<V> && sizeof(V) == 64) {
    const __m512i from_zero = _mm512_max_epi32(cast<__m512i>(a), _mm512_setzero_si512());
    return cast<RegisterOf<Out, 32>>(_mm512_cvtusepi32_epi16(from_zero));
  } else
#endif
      if constexpr (kIsPair<V>) {
    return join(clamped_u16(a.lo), clamped_u16(a.hi));
  } else {
    const V held = MaxI32{}(MinI32{}(a, fill<V>(65535)), V{});
    return __builtin_convertvector(held, Like<Out, V>);
  }
}

/// i32 lanes clamped to the range of a byte, u8 or s8.
template <class Byte, class V>
OCTET_HD auto clamped_byte(V a) {
#if defined(__AVX512BW__)
  if constexpr (kRegisterBytes == 64 && sizeof(V) == 256) {
    // As below, in groups of 4 that lie in the order 0, 4, 8, 12, 1, 5, ...
    const auto words = [](auto pair) {
      return _mm512_packs_epi32(cast<__m512i>(pair.lo), cast<__m512i>(pair.hi));
    };
    const __m512i low = words(a.lo), high = words(a.hi);
    const __m512i packed =
        std::is_signed_v<Byte> ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return cast<RegisterOf<Byte, 64>>(_mm512_permutexvar_epi32(order, packed));
  } else
#endif
#if defined(__AVX2__)
      if constexpr (kRegisterBytes == 32 && sizeof(V) == 128) {
    // The packs work on each 128 bits by themselves: groups of 4 lie in the order 0, 2, 4, 6, 1, 3, 5, 7.
    const auto words = [](auto pair) {
      return _mm256_packs_epi32(cast<__m256i>(pair.lo), cast<__m256i>(pair.hi));
    };
    const __m256i low = words(a.lo), high = words(a.hi);
    const __m256i packed =
        std::is_signed_v<Byte> ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return cast<RegisterOf<Byte, 32>>(_mm256_permutevar8x32_epi32(packed, order));
  } else
#endif
      if constexpr (kIsPair<V>) {
    return join(clamped_byte<Byte>(a.lo), clamped_byte<Byte>(a.hi));
  } else {
    constexpr std::int32_t kLeast = std::is_signed_v<Byte> ? -128 : 0;
    constexpr std::int32_t kMost = std::is_signed_v<Byte> ? 127 : 255;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      const __m512i x = cast<__m512i>(a);
      const __m128i packed = std::is_signed_v<Byte>
                                 ? _mm512_cvtsepi32_epi8(x)
                                 : _mm512_cvtusepi32_epi8(_mm512_max_epi32(x, _mm512_setzero_si512()));
      return cast<RegisterOf<Byte, 16>>(packed);
    } else
#endif
#if defined(__AVX2__)
        if constexpr (sizeof(V) == 32) {
      const __m128i words = _mm_packs_epi32(cast<__m128i>(low_half(a)), cast<__m128i>(high_half(a)));
      const __m128i packed =
          std::is_signed_v<Byte> ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words);
      return low_half(cast<RegisterOf<Byte, 16>>(packed));
    } else
#endif
    {
      const V held = MaxI32{}(MinI32{}(a, fill<V>(kMost)), fill<V>(kLeast));
      return __builtin_convertvector(held, Like<Byte, V>);
    }
  }
}

}  // namespace octet::simd
