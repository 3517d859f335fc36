// Verbs of lanes/scalar.h for f32 in one register.
#pragma once
#include <cstdint>

#include "lanes/native_register.h"

namespace octet::simd {

struct Min {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_min_ps(cast<__m512>(a), cast<__m512>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_min_ps(cast<__m256>(a), cast<__m256>(b)));
#endif
    return a < b ? a : b;
  }
};

struct Max {
  template <class V>
  OCTET_HD V operator()(V a, V b) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_max_ps(cast<__m512>(a), cast<__m512>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_max_ps(cast<__m256>(a), cast<__m256>(b)));
#endif
    return a > b ? a : b;
  }
};

struct Rint {
  template <class V>
  OCTET_HD V operator()(V a) const {
    [[maybe_unused]] constexpr int kNearestQuietly = 0x08;  // _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_roundscale_ps(cast<__m512>(a), kNearestQuietly));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<V>(_mm256_round_ps(cast<__m256>(a), kNearestQuietly));
#endif
    return round_to_integer(a);
  }
};

/// Nearest even; the least value where the result has no place in 32 bits, and for NaN: what x86's conversion
/// does.
struct ToI32OrLeast {
  template <class V>
  OCTET_HD auto operator()(V a) const {
    using I = Like<std::int32_t, V>;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<I>(_mm512_cvtps_epi32(cast<__m512>(a)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<I>(_mm256_cvtps_epi32(cast<__m256>(a)));
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16) return cast<I>(_mm_cvtps_epi32(cast<__m128>(a)));
#endif
    constexpr float kTwo31 = 2147483648.0f;
    const V rounded = round_to_integer(a);
    const auto fits = (rounded >= -kTwo31) & (rounded < kTwo31);
    const V held = fits ? rounded : V{};
    return fits ? __builtin_convertvector(held, I) : fill<I>(-2147483647 - 1);
  }
};

struct ToF32 {
  template <class V>
  OCTET_HD auto operator()(V a) const {
    return __builtin_convertvector(a, Like<float, V>);
  }
};

/// Toward zero, for |a| < 2^31.
struct Truncate {
  template <class V>
  OCTET_HD auto operator()(V a) const {
    return __builtin_convertvector(a, Like<std::int32_t, V>);
  }
};

/// table[index[lane]].
struct Gather {
  const float* table;

  template <class V>
  OCTET_HD auto operator()(V index) const {
    using F = Like<float, V>;
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<F>(_mm512_i32gather_ps(cast<__m512i>(index), table, 4));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return cast<F>(_mm256_i32gather_ps(table, cast<__m256i>(index), 4));
#endif
    F out{};
    for (int i = 0; i < kLanesOf<V>; ++i) out[i] = table[index[i]];
    return out;
  }
};

/// table[index[lane]] of 16 entries: shuffles, where a gather reads entry by entry.
struct Lookup16 {
  const std::int32_t* table;

  template <class V>
  OCTET_HD V operator()(V index) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64)
      return cast<V>(_mm512_permutexvar_epi32(cast<__m512i>(index), _mm512_loadu_si512(table)));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) {
      const __m256i at = cast<__m256i>(index);
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table)),
                    high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(table + 8));
      const __m256i upper = _mm256_slli_epi32(at, 28);  // bit 3 as the sign
      return cast<V>(_mm256_castps_si256(_mm256_blendv_ps(
          _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(low, at)),
          _mm256_castsi256_ps(_mm256_permutevar8x32_epi32(high, at)), _mm256_castsi256_ps(upper))));
    }
#endif
    V out{};
    for (int i = 0; i < kLanesOf<V>; ++i) out[i] = table[index[i]];
    return out;
  }
};

/// table[index[lane]] of 64 entries, all of which are read, likewise.
struct Lookup64 {
  const float* table;

  template <class V>
  OCTET_HD auto operator()(V index) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) {
      const __m512i at = cast<__m512i>(index);
      const auto of_32 = [&](const float* from) {
        return _mm512_permutex2var_ps(_mm512_loadu_ps(from), at, _mm512_loadu_ps(from + 16));
      };
      const __mmask16 upper = _mm512_test_epi32_mask(at, _mm512_set1_epi32(32));
      return cast<Like<float, V>>(_mm512_mask_blend_ps(upper, of_32(table), of_32(table + 32)));
    }
#endif
    return Gather{table}(index);
  }
};

/// x y + a of floats with one rounding, in registers of 64 bytes: sets without them have no use for it. What
/// every set is to give the same bits of is a product, then a sum.
template <class V>
OCTET_HD V multiply_add([[maybe_unused]] V x, [[maybe_unused]] V y, V a) {
#if defined(__AVX512F__)
  static_assert(sizeof(V) == 64);
  return cast<V>(_mm512_fmadd_ps(cast<__m512>(x), cast<__m512>(y), cast<__m512>(a)));
#else
  static_assert(sizeof(V) == 0, "the set has none");
  return a;
#endif
}

}  // namespace octet::simd
