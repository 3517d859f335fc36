// The products of AVX-512 with VNNI.
#include "cpu/avx512/products.h"

#include "cpu/avx512/tiles.inl"
#include "cpu/avx512/tiles_largest.inl"
#include "cpu/avx512/tiles_wide.inl"
#include "cpu/avx512/woven.inl"

namespace octet::cpu::avx512 {
namespace {

// b is the unsigned side: K against q.
#define OCTET_UNSIGNED_B(COLUMN, SUM) "vpdpbusd %%zmm28, %%zmm" COLUMN ", %%zmm" SUM "\n\t"
// a is the unsigned side: P against V.
#define OCTET_UNSIGNED_A(COLUMN, SUM) "vpdpbusd %%zmm" COLUMN ", %%zmm28, %%zmm" SUM "\n\t"
#define OCTET_FMA(COLUMN, SUM) "vfmadd231ps %%zmm" COLUMN ", %%zmm28, %%zmm" SUM "\n\t"

OCTET_TILE_6X4(tile_s8_u8, OCTET_UNSIGNED_B)
OCTET_TILE_6X4(tile_u8_s8, OCTET_UNSIGNED_A)
OCTET_TILE_6X4(tile_f32, OCTET_FMA)

// Q K^T that ends in words goes two columns at a time, in two sets of 12 sums by turns: while one set is
// multiplied, the other becomes words, a row beside each of the first six steps. The words of a row are one
// vector: 32 keys. One set after another would leave the multipliers idle for a quarter of the time at a head
// dim of 64.

// Laid out as it runs.
// clang-format off
// One row of a step: its group in every lane, times two columns.
#define OCTET_PAIR_ROW(ADDRESS, S0, S1) \
  "vpbroadcastd " ADDRESS ", %%zmm28\n\t" OCTET_UNSIGNED_B("24", S0) OCTET_UNSIGNED_B("25", S1)
// A step of the sums S0...S11, row by row; W0...W5 go between its rows.
#define OCTET_PAIR_STEP(S0, S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, W0, W1, W2, W3, W4, W5) \
  "vmovdqu64 (%[b]), %%zmm24\n\t"                                                                 \
  "vmovdqu64 (%[b],%[column]), %%zmm25\n\t" OCTET_PAIR_ROW("(%[a])", S0, S1)                      \
      W0 OCTET_PAIR_ROW("(%[a],%[row])", S2, S3)                                                  \
  W1 OCTET_PAIR_ROW("(%[a],%[row],2)", S4, S5)                                                    \
  W2 OCTET_PAIR_ROW("(%[a3])", S6, S7)                                                            \
  W3 OCTET_PAIR_ROW("(%[a3],%[row])", S8, S9)                                                     \
  W4 OCTET_PAIR_ROW("(%[a3],%[row],2)", S10, S11) W5                                              \
      "add %[step], %[b]\n\tadd $4, %[a]\n\t"                                                     \
      "add $4, %[a3]\n\t"
// Row ROW's sums of the other set to words. SCALE(offset, sum) multiplies by the keys' scales or does
// nothing; the levels of the two columns are in zmm26 and zmm27.
#define OCTET_CONVERT(S0, S1) "vcvtdq2ps %%zmm" S0 ", %%zmm" S0 "\n\tvcvtdq2ps %%zmm" S1 ", %%zmm" S1 "\n\t"
#define OCTET_LEVEL(ROW, LEVEL, SUM) \
  "vfmadd132ps 4*" ROW "(%[factor])%{1to16%}, %%zmm" LEVEL ", %%zmm" SUM "\n\t"
#define OCTET_ROUND(S0, S1) "vcvtps2dq %%zmm" S0 ", %%zmm" S0 "\n\tvcvtps2dq %%zmm" S1 ", %%zmm" S1 "\n\t"
#define OCTET_STORE_WORDS(S0, S1)                                         \
  "vpackusdw %%zmm" S1 ", %%zmm" S0 ", %%zmm" S0 "\n\tvmovdqu64 %%zmm" S0 \
  ", (%[out])\n\tadd %[out_row]"                                          \
  ", %[out]\n\t"
#define OCTET_WOVEN_STEP(SCALE, ROW, E0, E1, ...)                                             \
  OCTET_PAIR_STEP(__VA_ARGS__, OCTET_CONVERT(E0, E1), SCALE("0", E0) SCALE("64", E1),         \
                  OCTET_LEVEL(ROW, "26", E0) OCTET_LEVEL(ROW, "27", E1), OCTET_ROUND(E0, E1), \
                  OCTET_STORE_WORDS(E0, E1), "")
#define OCTET_ROW_OF_WORDS(SCALE, ROW, E0, E1)                                    \
  OCTET_CONVERT(E0, E1) SCALE("0", E0) SCALE("64", E1) OCTET_LEVEL(ROW, "26", E0) \
      OCTET_LEVEL(ROW, "27", E1) OCTET_ROUND(E0, E1) OCTET_STORE_WORDS(E0, E1)
#define OCTET_NO_SCALE(OFFSET, SUM)
#define OCTET_SCALE(OFFSET, SUM) "vmulps " OFFSET "(%[scale]), %%zmm" SUM ", %%zmm" SUM "\n\t"

#define OCTET_LEVELS "vmovups (%[level]), %%zmm26\n\tvmovups 64(%[level]), %%zmm27\n\t"
// On to the next two columns' words.
#define OCTET_NEXT_WORDS(NEXT_SCALE) "add $128, %[level]\n\tsub %[out_back], %[out]\n\t" NEXT_SCALE
#define OCTET_NEXT_SCALE "add $128, %[scale]\n\t"
// The steps of one set of sums beside the words of the other.
#define OCTET_WOVEN_6(SCALE, E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, ...)                       \
  OCTET_LEVELS OCTET_WOVEN_STEP(SCALE, "0", E0, E1, __VA_ARGS__)                                          \
      OCTET_WOVEN_STEP(SCALE, "1", E2, E3, __VA_ARGS__) OCTET_WOVEN_STEP(SCALE, "2", E4, E5, __VA_ARGS__) \
          OCTET_WOVEN_STEP(SCALE, "3", E6, E7, __VA_ARGS__)                                               \
              OCTET_WOVEN_STEP(SCALE, "4", E8, E9, __VA_ARGS__)                                           \
                  OCTET_WOVEN_STEP(SCALE, "5", E10, E11, __VA_ARGS__)
#define OCTET_WOVEN(...) OCTET_WOVEN_6(__VA_ARGS__)
// All steps of a set of sums, with no other one to become words.
#define OCTET_ALONE(LABEL, ...)                                                                         \
  "mov %[all], %[from]\n\t.p2align 5\n1" LABEL ":\n\t" OCTET_PAIR_STEP(__VA_ARGS__, "", "", "", "", "", "") \
  "dec %[from]\n\tjnz 1" LABEL "b\n\t"
#define OCTET_ALONE_OF(...) OCTET_ALONE(__VA_ARGS__)
#define OCTET_REST(LABEL, ...)                                                                           \
  "mov %[rest], %[from]\n\ttest %[from], %[from]\n\tjz 2" LABEL "f\n\t.p2align 5\n1" LABEL               \
  ":\n\t" OCTET_PAIR_STEP(__VA_ARGS__, "", "", "", "", "", "") "dec %[from]\n\tjnz 1" LABEL "b\n2" LABEL \
                                                               ":\n\t"
#define OCTET_REST_OF(...) OCTET_REST(__VA_ARGS__)
#define OCTET_LAST_6(SCALE, E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11)                \
  OCTET_LEVELS OCTET_ROW_OF_WORDS(SCALE, "0", E0, E1) OCTET_ROW_OF_WORDS(SCALE, "1", E2, E3) \
      OCTET_ROW_OF_WORDS(SCALE, "2", E4, E5) OCTET_ROW_OF_WORDS(SCALE, "3", E6, E7)          \
          OCTET_ROW_OF_WORDS(SCALE, "4", E8, E9) OCTET_ROW_OF_WORDS(SCALE, "5", E10, E11)
#define OCTET_LAST(...) OCTET_LAST_6(__VA_ARGS__)

// `pairs` times two columns.
#define OCTET_TO_WORDS(NAME, SCALE, NEXT_SCALE)                                                               \
  __attribute__((noinline)) void NAME(const Tile& t, const TileWords& w, std::int64_t pairs) {                \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row, *b = t.b;                                              \
    std::byte* out = w.out;                                                                                   \
    const float *level = w.level, *scale = w.scale;                                                           \
    const std::int64_t a_back = 4 * t.steps, b_next = 2 * t.b_column - t.steps * t.b_step,                    \
                       out_back = kTileRows * w.out_row - kVector, all = t.steps,           \
                       rest = t.steps - kWovenSteps;                                                          \
    std::int64_t from;                                                                                        \
    asm volatile(                                                                                           \
        OCTET_START_SET(OCTET_SET_A)                                                                        \
        OCTET_ALONE_OF("0", OCTET_SET_A)                                                                    \
        OCTET_NEXT_PAIR                                                                                     \
        "jmp 7f\n"                                                                                          \
        "6:\n\t"                                                                                            \
        OCTET_START_SET(OCTET_SET_A)                                                                        \
        OCTET_WOVEN(SCALE, OCTET_SET_B, OCTET_SET_A)                                                        \
        OCTET_REST_OF("3", OCTET_SET_A)                                                                     \
        OCTET_NEXT_PAIR                                                                                     \
        OCTET_NEXT_WORDS(NEXT_SCALE)                                                                        \
        "7:\n\t"                                                                                            \
        "decq %[pairs]\n\t"                                                                                 \
        "jz 8f\n\t"                                                                                         \
        OCTET_START_SET(OCTET_SET_B)                                                                        \
        OCTET_WOVEN(SCALE, OCTET_SET_A, OCTET_SET_B)                                                        \
        OCTET_REST_OF("4", OCTET_SET_B)                                                                     \
        OCTET_NEXT_PAIR                                                                                     \
        OCTET_NEXT_WORDS(NEXT_SCALE)                                                                        \
        "decq %[pairs]\n\t"                                                                                 \
        "jnz 6b\n\t"                                                                                        \
        OCTET_LAST(SCALE, OCTET_SET_B)                                                                      \
        "jmp 9f\n"                                                                                          \
        "8:\n\t"                                                                                            \
        OCTET_LAST(SCALE, OCTET_SET_A)                                                                      \
        "9:\n\t"                                                                                            \
        : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [out] "+r"(out), [level] "+r"(level),                    \
          [scale] "+r"(scale), [from] "=&r"(from), [pairs] "+m"(pairs)                                      \
        : [row] "r"(t.a_row), [column] "r"(t.b_column), [factor] "r"(w.factor), [out_row] "r"(w.out_row),   \
          [step] "m"(t.b_step), [start] "m"(t.start), [rest] "m"(rest), [a_back] "m"(a_back),               \
          [b_next] "m"(b_next), [out_back] "m"(out_back), [all] "m"(all)                                    \
        : OCTET_VECTORS); \
  }
// clang-format on

OCTET_TO_WORDS(tiles_to_words, OCTET_NO_SCALE, "")
OCTET_TO_WORDS(tiles_to_scaled_words, OCTET_SCALE, OCTET_NEXT_SCALE)

OCTET_TILES_TO_OUT(tile_u8_s8_and_fold, OCTET_UNSIGNED_A, OCTET_FROM_INTEGER)
OCTET_TILES_TO_OUT(tile_f32_and_fold, OCTET_FMA, OCTET_AS_IT_IS)

OCTET_TILES_WIDE(tile_u8_s8_wide, OCTET_UNSIGNED_A)

/// How a group of `a` in every lane meets a column of `b`.
struct UnsignedB {
  static constexpr bool kAnyOrder = true;  ///< of steps, for the same sum
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, b, a); }
  /// `a`: the group. gcc 12 knows the instruction with a broadcast of its own alone.
  static __m512i multiply_at(__m512i sum, const std::byte* a, __m512i b) {
    asm("vpdpbusd %1%{1to16%}, %2, %0" : "+v"(sum) : "m"(*reinterpret_cast<const std::int32_t*>(a)), "v"(b));
    return sum;
  }
};
/// `b` of signed codes, which become code + 128 as they are read.
struct ShiftedB {
  static constexpr bool kAnyOrder = true;
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) {
    return UnsignedB::multiply(sum, a, _mm512_xor_si512(b, _mm512_set1_epi8(-128)));
  }
};
struct UnsignedA {
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
};
struct FusedF32 {
  static constexpr bool kAnyOrder = false;
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) {
    return _mm512_castps_si512(
        _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), _mm512_castsi512_ps(sum)));
  }
};

/// One column of all rows as words, and the least words beside them.
template <bool kScaled>
__attribute__((noinline)) void column_to_words(const Tile& t, const TileWords& w, std::int64_t column) {
  constexpr std::int64_t kKeys = kVector / 4, kHalf = kVector / 2;
  __m512i sum[kRows];
  column_of_all<UnsignedB>(t, t.b + column * t.b_column, sum);
  const __m512 level = _mm512_loadu_ps(w.level + column * kKeys);
  const __m512i least = _mm512_setzero_si512();
  std::byte* out = w.out + column * kHalf;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, out += w.out_row) {
    __m512 x = _mm512_cvtepi32_ps(sum[r]);
    if constexpr (kScaled) x = _mm512_mul_ps(x, _mm512_loadu_ps(w.scale + column * kKeys));
    const __m512i units = _mm512_cvtps_epi32(_mm512_fmadd_ps(x, _mm512_set1_ps(w.factor[r]), level));
    _mm512_storeu_si512(out, _mm512_packus_epi32(units, least));
  }
}

}  // namespace

void multiply_s8_u8(const Tile& t, std::int64_t columns) { all<UnsignedB>(tile_s8_u8, t, columns); }
std::int64_t multiply_s8_u8_to_words(const Tile& t, const TileWords& words, std::int64_t columns) {
  constexpr std::int64_t kPair = 2;
  const std::int64_t odd = columns % kPair;
  const bool apart = odd > 0 && t.rows > kTileRows;
  const std::int64_t pairs = apart ? columns / kPair : (columns + odd) / kPair;
  if (pairs == 0 || t.steps < kWovenSteps) return 0;
  const auto tiles = words.scale ? tiles_to_scaled_words : tiles_to_words;
  for_tiles([&](const Tile& of_rows, const TileWords& into) { tiles(of_rows, into, pairs); }, t, words);
  if (apart) (words.scale ? column_to_words<true> : column_to_words<false>)(t, words, columns - 1);
  return columns + odd;
}
std::int64_t multiply_s8_u8_with_largest(const Tile& t, std::byte* largest, std::int64_t columns) {
  constexpr std::int64_t kPair = 2;
  const std::int64_t pairs = columns / kPair;
  if (pairs == 0 || t.steps < kWovenSteps) return 0;
  for_tiles([&](const Tile& of_rows, std::byte* into) { tiles_with_largest(of_rows, into, pairs); }, t,
            largest);
  return pairs * kPair;
}
std::int64_t multiply_u8_s8_and_fold(const Tile& t, const TileFold& fold, std::int64_t columns) {
  return all_and_fold(tile_u8_s8_and_fold, t, fold, columns);
}
std::int64_t multiply_u8_s8_wide(const Tile& t, const TileWide& wide, std::int64_t columns) {
  return all_wide(tile_u8_s8_wide, t, wide, columns);
}
std::int64_t multiply_f32_and_fold(const Tile& t, const TileFold& fold, std::int64_t columns) {
  return all_and_fold(tile_f32_and_fold, t, fold, columns);
}
void multiply_u8_s8(const Tile& t, std::int64_t columns) { all<UnsignedA>(tile_u8_s8, t, columns); }
void multiply_f32(const Tile& t, std::int64_t columns) { all<FusedF32>(tile_f32, t, columns); }
void multiply_few_s8_u8(const Tile& t, std::int64_t columns) { few_qk<UnsignedB>(t, columns); }
void multiply_few_s8_s8(const Tile& t, std::int64_t columns) { few_qk<ShiftedB>(t, columns); }
void multiply_few_u8_s8(const Tile& t, std::int64_t columns) { few_pv<UnsignedA>(t, columns); }
void multiply_few_qk_f32(const Tile& t, std::int64_t columns) { few_qk<FusedF32>(t, columns); }
void multiply_few_pv_f32(const Tile& t, std::int64_t columns) { few_pv<FusedF32>(t, columns); }

}  // namespace octet::cpu::avx512
