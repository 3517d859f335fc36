// What one register can do: the verbs of lanes/scalar.h for the compiler's own vectors. Plain vector code
// where both compilers translate it well, intrinsics where they do not; each has a form that needs no
// particular instruction set. Every function here is compiled once for each instruction set and always
// inlined.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/bits.h"
#include "lanes/pair.h"

#if defined(__SSE2__)
// note: g++ 12 warns where its own header has an operand that means nothing (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace octet::simd {

/// A vector of the compiler: kBytes of T.
template <class T, int kBytes>
struct Register {
  typedef T Type __attribute__((vector_size(kBytes)));
};
template <class T, int kBytes>
using RegisterOf = typename Register<T, kBytes>::Type;

template <class V>
using Element = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
template <class V>
inline constexpr int kLanesOf = static_cast<int>(sizeof(V) / sizeof(Element<V>));
/// As many T as V has lanes.
template <class T, class V>
using Like = RegisterOf<T, kLanesOf<V>* static_cast<int>(sizeof(T))>;

/// x in all lanes of V. note: x - 0 and not x + 0, which is not x for -0.
template <class V>
OCTET_HD V fill(Element<V> x) {
  return x - V{};
}

template <class To, class V>
OCTET_HD To cast(V x) {
  return __builtin_bit_cast(To, x);
}

/// Lanes [kFrom, kFrom + half of them).
template <int kFrom, class V, int... kLane>
OCTET_HD auto take(V x, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(x, x, (kFrom + kLane)...);
}
template <class V>
OCTET_HD auto low_half(V x) {
  return take<0>(x, std::make_integer_sequence<int, kLanesOf<V> / 2>{});
}
template <class V>
OCTET_HD auto high_half(V x) {
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32)
    return cast<RegisterOf<Element<V>, 16>>(_mm256_extracti128_si256(cast<__m256i>(x), 1));
  else
#endif
    return take<kLanesOf<V> / 2>(x, std::make_integer_sequence<int, kLanesOf<V> / 2>{});
}
template <class V, int... kLane>
OCTET_HD auto join(V low, V high, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(low, high, kLane...);
}
/// One register where it holds both, else a pair.
template <class V>
OCTET_HD auto join(V low, V high) {
  if constexpr (kIsPair<V>) {
    return Pair<V>{low, high};
  } else if constexpr (2 * sizeof(V) > kRegisterBytes) {
    return Pair<V>{low, high};
  } else {
    return join(low, high, std::make_integer_sequence<int, 2 * kLanesOf<V>>{});
  }
}

struct Select {
  template <class M, class V>
  OCTET_HD V operator()(M mask, V yes, V no) const {
    return mask ? yes : no;
  }
};

// --- f32

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

// --- i32 and u32

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

// --- u16

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

// --- From one width to another

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

/// In which lanes a comparison holds: bit i of lane i.
template <class V>
OCTET_HD std::uint32_t lanes_that(V mask) {
  if constexpr (kIsPair<V>)
    return lanes_that(mask.lo) | lanes_that(mask.hi) << kLanesOf<decltype(mask.lo)>;
  else
#if defined(__AVX512F__)
      if constexpr (sizeof(V) == 64)
    return _mm512_test_epi32_mask(cast<__m512i>(mask), cast<__m512i>(mask));
  else
#endif
#if defined(__AVX2__)
      if constexpr (sizeof(V) == 32)
    return static_cast<std::uint32_t>(_mm256_movemask_ps(cast<__m256>(mask)));
  else
#endif
  {
    std::uint32_t found = 0;
    for (int i = 0; i < kLanesOf<V>; ++i) found |= static_cast<std::uint32_t>(mask[i] != 0) << i;
    return found;
  }
}
/// Whether it holds in any.
template <class V>
OCTET_HD bool any(V mask) {
  return lanes_that(mask) != 0;
}

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

// --- i64

/// a >> s with the sign coming in, 0 <= s < 64. Before AVX-512 there is only the shift that brings in zeros:
/// the sign bit is flipped before it, and its shifted place is subtracted after it.
struct ShiftRightI64 {
  std::uint32_t by;

  template <class V>
  OCTET_HD V operator()(V a) const {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return cast<V>(_mm512_srav_epi64(cast<__m512i>(a), _mm512_set1_epi64(by)));
#endif
    using U = Like<std::uint64_t, V>;
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    return cast<V>(((cast<U>(a) ^ kSign) >> std::uint64_t{by}) - (kSign >> by));
  }
};

struct ShiftLeftI64 {
  std::uint32_t by;

  template <class V>
  OCTET_HD V operator()(V a) const {
    return cast<V>(cast<Like<std::uint64_t, V>>(a) << std::uint64_t{by});
  }
};

/// Which 32 bits of each lane.
enum class Word : int { low, high };

template <Word kWord, class V, int... kLane>
OCTET_HD auto words(V low, V high, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(low, high, (2 * kLane + static_cast<int>(kWord))...);
}

/// These words of all lanes, in half of the registers.
template <Word kWord, class V>
OCTET_HD auto words(V a) {
  if constexpr (kIsPair<V>) {
    if constexpr (kIsPair<decltype(V::lo)>) {
      return join(words<kWord>(a.lo), words<kWord>(a.hi));
    } else {
      using Half = RegisterOf<std::int32_t, sizeof(V) / 2>;
      const Half low = cast<Half>(a.lo), high = cast<Half>(a.hi);
#if defined(__AVX2__)
      if constexpr (sizeof(Half) == 32) {
        // The shuffle takes two words of each operand's 128 bits.
        constexpr int kWords = kWord == Word::low ? 0x88 : 0xdd, kQuartersInOrder = 0xd8;
        const __m256i mixed = cast<__m256i>(_mm256_shuffle_ps(cast<__m256>(low), cast<__m256>(high), kWords));
        return cast<Half>(_mm256_permute4x64_epi64(mixed, kQuartersInOrder));
      } else
#endif
        return words<kWord>(low, high, std::make_integer_sequence<int, kLanesOf<Half>>{});
    }
  } else {
    using Words = RegisterOf<std::int32_t, sizeof(V)>;
    const Words all = cast<Words>(a);
    return words<kWord>(all, all, std::make_integer_sequence<int, kLanesOf<V>>{});
  }
}

// --- Memory and single lanes

template <class V>
inline constexpr int kWidthOf = kLanesOf<V>;
template <class Half>
inline constexpr int kWidthOf<Pair<Half>> = 2 * kWidthOf<Half>;

/// Register by register: g++ 12 copies a pair as a whole by way of the stack.
template <class V, class T>
OCTET_HD V load(const T* from) {
  if constexpr (kIsPair<V>) {
    using Half = decltype(V::lo);
    return {load<Half>(from), load<Half>(from + kWidthOf<Half>)};
  } else {
    V a;
    __builtin_memcpy(&a, from, sizeof a);
    return a;
  }
}
template <class V, class T>
OCTET_HD void store(T* to, V a) {
  if constexpr (kIsPair<V>) {
    store(to, a.lo);
    store(to + kWidthOf<V> / 2, a.hi);
  } else {
    __builtin_memcpy(to, &a, sizeof a);
  }
}

template <class V>
OCTET_HD auto lane_of(const V& a, int lane) {
  if constexpr (kIsPair<V>) {
    constexpr int kHalf = kWidthOf<V> / 2;
    return lane < kHalf ? lane_of(a.lo, lane) : lane_of(a.hi, lane - kHalf);
  } else {
    // note: a[lane] would copy a vector that lies in memory before it reads one lane.
    Element<V> x;
    __builtin_memcpy(&x, reinterpret_cast<const char*>(&a) + static_cast<std::size_t>(lane) * sizeof x,
                     sizeof x);
    return x;
  }
}

template <class V, class T>
OCTET_HD void set_lane(V& a, int lane, T x) {
  if constexpr (kIsPair<V>) {
    constexpr int kHalf = kWidthOf<V> / 2;
    if (lane < kHalf)
      set_lane(a.lo, lane, x);
    else
      set_lane(a.hi, lane - kHalf, x);
  } else {
    a[lane] = x;
  }
}

}  // namespace octet::simd
