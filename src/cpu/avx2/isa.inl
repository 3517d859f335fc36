// AVX2 as attend.inl asks for it; AVX-VNNI's nests are these with other products (avx2/vnni_nests.cpp).
#include <immintrin.h>

#include <array>

#include "cpu/avx2/exp2.inl"
#include "cpu/avx2/products.h"
#include "cpu/nest.inl"
#include "lanes/vector.h"

namespace octet::cpu {
namespace {

struct Isa256 {
  struct Tag {};
  struct Lane : VectorLane<8, Tag> {
    static F32 exp2(F32 x) { return simd::cast<F32>(exp2_fused(simd::cast<__m256>(x))); }
  };
  template <class S>
  static constexpr bool kHas = true;
  static constexpr std::int64_t kScoreGap = 0;
  static void begin(std::int64_t /*dim_groups*/) {}
  static void end() {}
  static constexpr std::int64_t kLanes = 8, kRows = avx2::kRows;
  static constexpr UnitRows kUnitRows{48, 48, 48};
  static constexpr Products kIntegers{
      Element::s8,
      Element::u8_bias,
      Element::u8_bias,
      Element::s8,
      {avx2::multiply_s8_u8, avx2::multiply_u8_s8, avx2::multiply_few_s8_u8, avx2::multiply_few_u8_s8},
      avx2::kFewRows};
  static constexpr Products kFloats{
      Element::f32,
      Element::f32,
      Element::f32,
      Element::f32,
      {avx2::multiply_f32, avx2::multiply_f32, avx2::multiply_few_qk_f32, avx2::multiply_few_pv_f32},
      avx2::kFewRows};
  static constexpr Products kHalves = kFloats;

  /// The low byte of each lane. Codes lie in -128...255, so the signed packs to 16 bits saturate nothing.
  static void store_codes(std::byte* at, Lane::I32 codes) {
    const __m256i wide = reinterpret_cast<__m256i>(codes);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at), _mm_packus_epi16(words, words));
  }

  // The 16-bit form (fixed.inl), words in the order of their keys.
  using Words = VectorLane<16, Tag>;
  typedef std::int16_t SignedWords __attribute__((vector_size(32)));
  /// What is added to the scores of a vector of words.
  struct Levels {
    Lane::F32 low, high;
  };

  static void store_levels(__m256 low, __m256 high, std::byte* words) {
    constexpr int kQuartersInOrder = 0xd8;  // 0, 2, 1, 3: packs work within halves
    const __m256i packed = _mm256_packus_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words),
                        _mm256_permute4x64_epi64(packed, kQuartersInOrder));
  }
  static __m256 sums_at(const std::byte* sums) {
    return _mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)));
  }
  static void level_words(const std::byte* sums, float factor, const Levels& levels, std::byte* words) {
    const __m256 f = _mm256_set1_ps(factor);
    store_levels(_mm256_fmadd_ps(sums_at(sums), f, simd::cast<__m256>(levels.low)),
                 _mm256_fmadd_ps(sums_at(sums + 32), f, simd::cast<__m256>(levels.high)), words);
  }
  static void level_words(const std::byte* sums, const float* k_scale, float factor, const Levels& levels,
                          std::byte* words) {
    const __m256 f = _mm256_set1_ps(factor);
    const __m256 low = _mm256_mul_ps(sums_at(sums), _mm256_loadu_ps(k_scale));
    const __m256 high = _mm256_mul_ps(sums_at(sums + 32), _mm256_loadu_ps(k_scale + 8));
    store_levels(_mm256_fmadd_ps(low, f, simd::cast<__m256>(levels.low)),
                 _mm256_fmadd_ps(high, f, simd::cast<__m256>(levels.high)), words);
  }
  /// A tile of 12 sums leaves the levels no registers: sums are stored, and become words from there.
  static constexpr MultiplyToWords kToWords = nullptr;
  static constexpr MultiplyToScores kToScores = nullptr;
  /// Two vectors of sums as words, saturated to 0...65535.
  static Words::U16 pack_words(Lane::I32 low, Lane::I32 high) {
    constexpr int kQuartersInOrder = 0xd8;
    return reinterpret_cast<Words::U16>(_mm256_permute4x64_epi64(
        _mm256_packus_epi32(reinterpret_cast<__m256i>(low), reinterpret_cast<__m256i>(high)),
        kQuartersInOrder));
  }
  static Words::U16 largest_words(Words::U16 a, Words::U16 b) {
    return reinterpret_cast<Words::U16>(
        _mm256_max_epu16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  template <class Mantissa>
  static Words::U16 weight(Words::U16 largest, Words::U16 words) {
    return fixed16::weight<Mantissa, Words>(largest - words);
  }
  /// The key of each word of a run.
  static SignedWords keys_of_words() {
    return SignedWords{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  }
  static Lane::I32 add_mass(Lane::I32 sum, Words::U16 weight, Words::U16 mass) {
    return sum + reinterpret_cast<Lane::I32>(
                     _mm256_madd_epi16(reinterpret_cast<__m256i>(weight), reinterpret_cast<__m256i>(mass)));
  }
  static __m256i bytes_of(Words::U16 low, Words::U16 high) {
    return _mm256_packus_epi16(reinterpret_cast<__m256i>(low), reinterpret_cast<__m256i>(high));
  }
  static void store_bytes(std::byte* at, __m256i bytes) {
    constexpr int kQuartersInOrder = 0xd8;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), _mm256_permute4x64_epi64(bytes, kQuartersInOrder));
  }
  static void store_word_codes(std::byte* at, Words::U16 low, Words::U16 high) {
    store_bytes(at, bytes_of(low, high));
  }
  /// Codes of weights, those of small ones by the places of their keys, which run from 0 in each half of
  /// bytes.
  static void store_weights(std::byte* at, Words::U16 low, Words::U16 high) {
    const __m256i nearest = bytes_of(Words::mulhrs_u16(low, fixed16::kLargestCode),
                                     Words::mulhrs_u16(high, fixed16::kLargestCode));
    constexpr auto of = [](int place) { return static_cast<char>(fixed16::least_coded(place)); };
    const __m256i least = _mm256_set1_epi64x(__builtin_bit_cast(
        std::int64_t, std::array<char, kPlaces>{of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)}));
    const __m256i weights = bytes_of(low, high);
    const __m256i coded = _mm256_cmpeq_epi8(_mm256_max_epu8(weights, least), weights);
    store_bytes(at, _mm256_and_si256(coded, _mm256_max_epu8(nearest, _mm256_set1_epi8(1))));
  }
};
using ThisIsa = Isa256;

}  // namespace
}  // namespace octet::cpu
