// AVX-512 with VNNI, as attend.inl asks for it; the sets with its lanes and other products begin from here.
#include <immintrin.h>

#include "cpu/avx512/plain_weights.inl"
#include "cpu/avx512/products.h"
#include "cpu/nest.inl"
#include "lanes/vector.h"

namespace octet::cpu {
namespace {

constexpr double kOneUnit = 1.0054299011128028;  ///< 2^(1 / 128): constexpr has no exp2

/// 2^16 2^(-f / 128) for f = 2 i and 2 i + 1 together: what lies between the two.
struct Mantissas {
  alignas(64) std::uint16_t of[64] = {};

  constexpr Mantissas() {
    double power = 65536;
    for (int i = 0; i < 64; ++i) {
      const double next = power / kOneUnit;
      of[i] = static_cast<std::uint16_t>((power + next) / 2 + 0.5);
      power = next / kOneUnit;
    }
  }
  /// The largest relative error of an entry.
  constexpr double error() const {
    double power = 65536, largest = 0;
    for (int f = 0; f < 128; ++f, power /= kOneUnit) {
      const double error = of[f / 2] / power - 1;
      largest = error > largest ? error : -error > largest ? -error : largest;
    }
    return largest;
  }
};
constexpr Mantissas kMantissas;
static_assert(kMantissas.error() < 0.0031, "what the error bound counts: ref/bound_terms.cpp");

/// fixed16::least_coded() of bytes that packs of words leave: fours of keys, of the same places in each half
/// of a quarter.
struct LeastCoded {
  alignas(64) std::uint8_t of[64] = {};

  constexpr LeastCoded() {
    for (int i = 0; i < 64; ++i)
      of[i] = static_cast<std::uint8_t>(fixed16::least_coded(i / 16 % 2 * 4 + i % 4));
  }
};
constexpr LeastCoded kLeastCoded;

struct Isa512 {
  struct Tag {};
  struct Lane : VectorLane<16, Tag> {
    static F32 exp2(F32 x) { return simd::cast<F32>(exp2_fused(simd::cast<__m512>(x))); }
  };
  template <class S>
  static constexpr bool kHas = true;
  static constexpr std::int64_t kScoreGap = 0;
  static void begin(std::int64_t /*dim_groups*/) {}
  static void end() {}
  static constexpr std::int64_t kLanes = 16, kRows = avx512::kRows;
  /// note: what a unit takes beside its rows is less of a row with 96 (Zen 5: 197 keys take 1 to 3 % less,
  /// 1,024 keys up to 2; with 144 no less).
  static constexpr UnitRows kUnitRows{48, 96, 96};
  static constexpr Products kIntegers{Element::s8,
                                      Element::u8_bias,
                                      Element::u8_bias,
                                      Element::s8,
                                      {avx512::multiply_s8_u8, avx512::multiply_u8_s8,
                                       avx512::multiply_few_s8_u8, avx512::multiply_few_u8_s8},
                                      avx512::kFewRows,
                                      avx512::multiply_u8_s8_and_fold};
  static constexpr Products kFloats{
      Element::f32,
      Element::f32,
      Element::f32,
      Element::f32,
      {avx512::multiply_f32, avx512::multiply_f32, avx512::multiply_few_qk_f32, avx512::multiply_few_pv_f32},
      avx512::kFewRows,
      avx512::multiply_f32_and_fold};
  static constexpr Products kHalves = kFloats;
  using Approximate = FloatSoftmax;
  /// The low byte of each lane.
  static void store_codes(std::byte* at, Lane::I32 codes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(codes)));
  }

  /// Codes from a table of them (table_codes.inl).
  static bool looks_up() { return avx512::looks_up_codes(); }
  static std::int32_t look_up(const TableRow& row) { return avx512::look_up_codes(row); }

  // The softmax in words (fixed.inl, integer_words.inl). The packs work within quarters: a quarter of a run's
  // words are 4 of its keys 0...15, then 4 of its keys 16...31.
  using Words = VectorLane<32, Tag>;
  typedef std::int16_t SignedWords __attribute__((vector_size(64)));
  /// What is added to the scores of a vector of words.
  struct Levels {
    Lane::F32 low, high;
  };

  static void store_levels(__m512 low, __m512 high, std::byte* words) {
    _mm512_storeu_si512(words, _mm512_packus_epi32(_mm512_cvtps_epi32(low), _mm512_cvtps_epi32(high)));
  }
  static constexpr MultiplyToWords kToWords = avx512::multiply_s8_u8_to_words;
  static constexpr MultiplyToScores kToScores = avx512::multiply_s8_u8_to_scores;
  /// Two vectors of sums as words, saturated to 0...65535.
  static Words::U16 pack_words(Lane::I32 low, Lane::I32 high) {
    return reinterpret_cast<Words::U16>(
        _mm512_packus_epi32(reinterpret_cast<__m512i>(low), reinterpret_cast<__m512i>(high)));
  }
  static void level_words(const std::byte* sums, float factor, const Levels& levels, std::byte* words) {
    const __m512 f = _mm512_set1_ps(factor);
    const __m512 a = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums)),
                 b = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums + 64));
    store_levels(_mm512_fmadd_ps(a, f, simd::cast<__m512>(levels.low)),
                 _mm512_fmadd_ps(b, f, simd::cast<__m512>(levels.high)), words);
  }
  static void level_words(const std::byte* sums, const float* k_scale, float factor, const Levels& levels,
                          std::byte* words) {
    const __m512 f = _mm512_set1_ps(factor);
    const __m512 a = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums)), _mm512_loadu_ps(k_scale));
    const __m512 b =
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(sums + 64)), _mm512_loadu_ps(k_scale + 16));
    store_levels(_mm512_fmadd_ps(a, f, simd::cast<__m512>(levels.low)),
                 _mm512_fmadd_ps(b, f, simd::cast<__m512>(levels.high)), words);
  }
  static Words::U16 largest_words(Words::U16 a, Words::U16 b) {
    return reinterpret_cast<Words::U16>(
        _mm512_max_epu16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
  /// fixed16::weight() of largest - words, the accurate mantissa from a table.
  template <class Mantissa>
  static Words::U16 weight(Words::U16 largest, Words::U16 words) {
    const Words::U16 z = largest - words;
    if constexpr (std::is_same_v<Mantissa, fixed16::AccurateMantissa>) {
      const __m512i zs = reinterpret_cast<__m512i>(z);
      const __m512i mantissa = _mm512_permutex2var_epi16(
          _mm512_load_si512(kMantissas.of), _mm512_srli_epi16(zs, 1), _mm512_load_si512(kMantissas.of + 32));
      const __m512i shifted = _mm512_srlv_epi16(mantissa, _mm512_srli_epi16(zs, fixed16::kUnitBits));
      return reinterpret_cast<Words::U16>(_mm512_avg_epu16(shifted, _mm512_setzero_si512()));
    } else {
      return fixed16::weight<Mantissa, Words>(z);
    }
  }
  /// The key of each word of a run.
  static SignedWords keys_of_words() {
    return SignedWords{0, 1, 2,  3,  16, 17, 18, 19, 4,  5,  6,  7,  20, 21, 22, 23,
                       8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31};
  }
  static Lane::I32 add_mass(Lane::I32 sum, Words::U16 weight, Words::U16 mass) {
    return reinterpret_cast<Lane::I32>(_mm512_dpwssd_epi32(
        reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(weight), reinterpret_cast<__m512i>(mass)));
  }
  /// 64 codes in the order of their keys, from two runs of words: the pack leaves fours of keys in order.
  static void store_word_codes(std::byte* at, Words::U16 low, Words::U16 high) {
    store_fours(at, bytes_of(low, high));
  }
  static __m512i bytes_of(Words::U16 low, Words::U16 high) {
    return _mm512_packus_epi16(reinterpret_cast<__m512i>(low), reinterpret_cast<__m512i>(high));
  }
  static void store_fours(std::byte* at, __m512i fours) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(at, _mm512_permutexvar_epi32(order, fours));
  }
  /// Codes of weights, those of small ones by the places of their keys.
  static void store_weights(std::byte* at, Words::U16 low, Words::U16 high) {
    const __m512i nearest = bytes_of(Words::mulhrs_u16(low, fixed16::kLargestCode),
                                     Words::mulhrs_u16(high, fixed16::kLargestCode));
    const __mmask64 coded = _mm512_cmpge_epu8_mask(bytes_of(low, high), _mm512_load_si512(kLeastCoded.of));
    store_fours(at, _mm512_maskz_max_epu8(coded, nearest, _mm512_set1_epi8(1)));
  }
};

/// The same in groups of 16 rows, for schemes whose softmax is in words that Q K^T does not end in: what it
/// does once for all rows of a group takes as long for 12, and a tile of fewer rows leaves registers for it.
struct Isa512Fours : Isa512 {
  static constexpr std::int64_t kRows = avx512::kFoursRows;
  /// note: a unit's first and last groups have nothing beside some of their stages (Zen 5: with 208 rows of
  /// 64 channels in place of 96 197 keys take 2 % less, 1,024 keys 1; rows of 128 channels gain nothing).
  static constexpr UnitRows kUnitRows{48, 96, 208};
  static constexpr Products kIntegers{
      Element::s8,
      Element::u8_bias,
      Element::u8_bias,
      Element::s8,
      {avx512::fours_s8_u8, avx512::fours_u8_s8, avx512::multiply_few_s8_u8, avx512::multiply_few_u8_s8},
      avx512::kFewRows,
      nullptr,
      avx512::fours_u8_s8_wide,
      avx512::fours_s8_u8_with_largest,
      Element::u8_bias,
      avx512::fours_u8_s8_beside};
};

/// Which of them a scheme takes.
template <class Isa, class S>
requires(std::is_same_v<Isa, Isa512>&& kIntegerInWords<S>) struct IsaOfScheme<Isa, S> {
  using Type = Isa512Fours;
};

}  // namespace
}  // namespace octet::cpu
