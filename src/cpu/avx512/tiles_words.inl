// Q K^T that ends in words: two columns at a time, in two sets of 12 sums by turns. While one set
// is multiplied, the other becomes words; the words of a row are one vector, 32 keys. One set after another
// would leave the multipliers idle for a quarter of the time at a head dim of 64. Of 12 rows the sets are the
// first six and the others of the same columns, so that K is read once for all of them.
#pragma once
#include "cpu/avx512/tiles.inl"

namespace octet::cpu::avx512 {
namespace {

/// Steps of a set, at least: one for each row. An even number, for the others go by twos.
constexpr int kWovenSteps = 6;
static_assert(kWovenSteps % 2 == 0);

// Laid out as it runs.
// clang-format off
#define OCTET_SET_A "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"
#define OCTET_SET_B "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23"
// Rows of a tile, and of one of 12 rows its other half.
#define OCTET_FIRST_ROWS "0", "1", "2", "3", "4", "5"
#define OCTET_OTHER_ROWS "6", "7", "8", "9", "10", "11"
#define OCTET_START_ROW(ROW, S0, S1) \
  "vpbroadcastd 4*" ROW "(%[from]), %%zmm" S0 "\n\tvmovdqa64 %%zmm" S0 ", %%zmm" S1 "\n\t"
#define OCTET_START_12(R0, R1, R2, R3, R4, R5, S0, S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11) \
  "mov %[start], %[from]\n\t" OCTET_START_ROW(R0, S0, S1) OCTET_START_ROW(R1, S2, S3)            \
      OCTET_START_ROW(R2, S4, S5) OCTET_START_ROW(R3, S6, S7) OCTET_START_ROW(R4, S8, S9)        \
          OCTET_START_ROW(R5, S10, S11)
#define OCTET_START_SET(...) OCTET_START_12(__VA_ARGS__)
// From the first half of 12 rows to the other, the same columns: the pointers of the sums.
#define OCTET_OTHER_HALF "sub %[b_back], %[b]\n\tadd %[a_other], %[a]\n\tadd %[a_other], %[a3]\n\t"
// On to the next two columns.
#define OCTET_NEXT_PAIR "add %[b_next], %[b]\n\tsub %[a_back], %[a]\n\tsub %[a_back], %[a3]\n\t"
// One row of a step: its group in every lane, times two columns.
#define OCTET_PAIR_ROW(ADDRESS, S0, S1)              \
  "vpbroadcastd " ADDRESS ", %%zmm28\n\t"            \
  "vpdpbusd %%zmm28, %%zmm24, %%zmm" S0 "\n\t"       \
  "vpdpbusd %%zmm28, %%zmm25, %%zmm" S1 "\n\t"
// Step AT of those whose groups lie at the pointers, of the sums S0...S11, row by row; W0...W5 go between its
// rows.
#define OCTET_PAIR_STEP(AT, S0, S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, W0, W1, W2, W3, W4, W5) \
  "vmovdqu64 64*" AT "(%[b]), %%zmm24\n\t"                                                            \
  "vmovdqu64 64*" AT "(%[b],%[column]), %%zmm25\n\t" OCTET_PAIR_ROW("4*" AT "(%[a])", S0, S1)         \
      W0 OCTET_PAIR_ROW("4*" AT "(%[a],%[row])", S2, S3)                                              \
  W1 OCTET_PAIR_ROW("4*" AT "(%[a],%[row],2)", S4, S5)                                                \
  W2 OCTET_PAIR_ROW("4*" AT "(%[a3])", S6, S7)                                                        \
  W3 OCTET_PAIR_ROW("4*" AT "(%[a3],%[row])", S8, S9)                                                 \
  W4 OCTET_PAIR_ROW("4*" AT "(%[a3],%[row],2)", S10, S11) W5
// On behind so many steps.
#define OCTET_STEPS_ON(COUNT) "add $64*" COUNT ", %[b]\n\tadd $4*" COUNT ", %[a]\n\tadd $4*" COUNT ", %[a3]\n\t"
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
#define OCTET_WOVEN_STEP(SCALE, AT, ROW, E0, E1, ...)                                         \
  OCTET_PAIR_STEP(AT, __VA_ARGS__, OCTET_CONVERT(E0, E1), SCALE("0", E0) SCALE("64", E1),     \
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
// The steps of one set of sums beside the words of the other, rows R0...R5.
#define OCTET_WOVEN_6(SCALE, R0, R1, R2, R3, R4, R5, E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, ...) \
  OCTET_LEVELS OCTET_WOVEN_STEP(SCALE, "0", R0, E0, E1, __VA_ARGS__)                                        \
      OCTET_WOVEN_STEP(SCALE, "1", R1, E2, E3, __VA_ARGS__)                                                 \
          OCTET_WOVEN_STEP(SCALE, "2", R2, E4, E5, __VA_ARGS__)                                             \
              OCTET_WOVEN_STEP(SCALE, "3", R3, E6, E7, __VA_ARGS__)                                         \
                  OCTET_WOVEN_STEP(SCALE, "4", R4, E8, E9, __VA_ARGS__)                                     \
                      OCTET_WOVEN_STEP(SCALE, "5", R5, E10, E11, __VA_ARGS__) OCTET_STEPS_ON("6")
#define OCTET_WOVEN(...) OCTET_WOVEN_6(__VA_ARGS__)
// TWOS times two steps of a set of sums, and one more where they are odd, with no other set to become words.
// note: two a turn, for Intel's processors run the pointers' additions on the ports that multiply.
#define OCTET_PLAIN_STEP(...) OCTET_PAIR_STEP(__VA_ARGS__, "", "", "", "", "", "")
#define OCTET_PLAIN_STEPS(LABEL, TWOS, ...)                                                         \
  "mov " TWOS ", %[from]\n\ttest %[from], %[from]\n\tjz 2" LABEL "f\n\t.p2align 5\n1" LABEL ":\n\t" \
  OCTET_PLAIN_STEP("0", __VA_ARGS__) OCTET_PLAIN_STEP("1", __VA_ARGS__) OCTET_STEPS_ON("2")         \
  "dec %[from]\n\tjnz 1" LABEL "b\n2" LABEL ":\n\ttestb $1, %[odd]\n\tjz 3" LABEL "f\n\t"           \
  OCTET_PLAIN_STEP("0", __VA_ARGS__) OCTET_STEPS_ON("1") "3" LABEL ":\n\t"
#define OCTET_ALONE_OF(LABEL, ...) OCTET_PLAIN_STEPS(LABEL, "%[all]", __VA_ARGS__)
#define OCTET_REST_OF(LABEL, ...) OCTET_PLAIN_STEPS(LABEL, "%[rest]", __VA_ARGS__)
#define OCTET_LAST_6(SCALE, R0, R1, R2, R3, R4, R5, E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11) \
  OCTET_LEVELS OCTET_ROW_OF_WORDS(SCALE, R0, E0, E1) OCTET_ROW_OF_WORDS(SCALE, R1, E2, E3)            \
      OCTET_ROW_OF_WORDS(SCALE, R2, E4, E5) OCTET_ROW_OF_WORDS(SCALE, R3, E6, E7)                     \
          OCTET_ROW_OF_WORDS(SCALE, R4, E8, E9) OCTET_ROW_OF_WORDS(SCALE, R5, E10, E11)
#define OCTET_LAST(...) OCTET_LAST_6(__VA_ARGS__)

// What the tiles of six and of 12 rows are given.
#define OCTET_WORD_OPERANDS                                                                         \
  [row] "r"(t.a_row), [column] "r"(t.b_column), [factor] "r"(w.factor), [out_row] "r"(w.out_row),   \
      [start] "m"(t.start), [all] "m"(all), [rest] "m"(rest), [odd] "m"(odd), [a_back] "m"(a_back), \
      [b_next] "m"(b_next), [out_back] "m"(out_back)

// `pairs` times two columns of six rows: columns by turns.
#define OCTET_SIX_TO_WORDS(NAME, SCALE, NEXT_SCALE)                                            \
  __attribute__((noinline)) void NAME(const Tile& t, const TileWords& w, std::int64_t pairs) { \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row, *b = t.b;                               \
    std::byte* out = w.out;                                                                    \
    const float *level = w.level, *scale = w.scale;                                            \
    const std::int64_t a_back = 4 * t.steps, b_next = 2 * t.b_column - t.steps * kVector,      \
                       out_back = kTileRows * w.out_row - kVector, all = t.steps / 2,          \
                       rest = (t.steps - kWovenSteps) / 2, odd = t.steps % 2;                  \
    std::int64_t from;                                                                         \
    asm volatile(                                                                              \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                         \
        OCTET_ALONE_OF("0", OCTET_SET_A)                                                       \
        OCTET_NEXT_PAIR                                                                        \
        "jmp 7f\n"                                                                             \
        "6:\n\t"                                                                               \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                         \
        OCTET_WOVEN(SCALE, OCTET_FIRST_ROWS, OCTET_SET_B, OCTET_SET_A)                         \
        OCTET_REST_OF("3", OCTET_SET_A)                                                        \
        OCTET_NEXT_PAIR                                                                        \
        OCTET_NEXT_WORDS(NEXT_SCALE)                                                           \
        "7:\n\t"                                                                               \
        "decq %[pairs]\n\t"                                                                    \
        "jz 8f\n\t"                                                                            \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_B)                                         \
        OCTET_WOVEN(SCALE, OCTET_FIRST_ROWS, OCTET_SET_A, OCTET_SET_B)                         \
        OCTET_REST_OF("4", OCTET_SET_B)                                                        \
        OCTET_NEXT_PAIR                                                                        \
        OCTET_NEXT_WORDS(NEXT_SCALE)                                                           \
        "decq %[pairs]\n\t"                                                                    \
        "jnz 6b\n\t"                                                                           \
        OCTET_LAST(SCALE, OCTET_FIRST_ROWS, OCTET_SET_B)                                       \
        "jmp 9f\n"                                                                             \
        "8:\n\t"                                                                               \
        OCTET_LAST(SCALE, OCTET_FIRST_ROWS, OCTET_SET_A)                                       \
        "9:\n\t"                                                                               \
        : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [out] "+r"(out), [level] "+r"(level),       \
          [scale] "+r"(scale), [from] "=&r"(from), [pairs] "+m"(pairs)                         \
        : OCTET_WORD_OPERANDS                                                                  \
        : OCTET_VECTORS);                                                                      \
  }

// The same of 12 rows: the halves by turns. The words of the other half of a pair come beside the first half's
// steps of the next one.
#define OCTET_HALVES_TO_WORDS(NAME, SCALE, NEXT_SCALE)                                                        \
  __attribute__((noinline)) void NAME(const Tile& t, const TileWords& w, std::int64_t pairs) {                \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row, *b = t.b;                                              \
    std::byte* out = w.out;                                                                                   \
    const float *level = w.level, *scale = w.scale;                                                           \
    const std::int64_t half = kTileRows * t.a_row, a_other = half - 4 * t.steps, a_back = half + 4 * t.steps, \
                       b_back = t.steps * kVector, b_next = 2 * t.b_column - b_back,                          \
                       out_back = kRows * w.out_row - kVector, all = t.steps / 2,                             \
                       rest = (t.steps - kWovenSteps) / 2, odd = t.steps % 2;                                 \
    std::int64_t from;                                                                                        \
    asm volatile(                                                                                             \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                                        \
        OCTET_ALONE_OF("0", OCTET_SET_A)                                                                      \
        OCTET_OTHER_HALF                                                                                      \
        "jmp 7f\n"                                                                                            \
        "6:\n\t"                                                                                              \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                                        \
        OCTET_WOVEN(SCALE, OCTET_OTHER_ROWS, OCTET_SET_B, OCTET_SET_A)                                        \
        OCTET_REST_OF("3", OCTET_SET_A)                                                                       \
        OCTET_OTHER_HALF                                                                                      \
        OCTET_NEXT_WORDS(NEXT_SCALE)                                                                          \
        "7:\n\t"                                                                                              \
        OCTET_START_SET(OCTET_OTHER_ROWS, OCTET_SET_B)                                                        \
        OCTET_WOVEN(SCALE, OCTET_FIRST_ROWS, OCTET_SET_A, OCTET_SET_B)                                        \
        OCTET_REST_OF("4", OCTET_SET_B)                                                                       \
        OCTET_NEXT_PAIR                                                                                       \
        "decq %[pairs]\n\t"                                                                                   \
        "jnz 6b\n\t"                                                                                          \
        OCTET_LAST(SCALE, OCTET_OTHER_ROWS, OCTET_SET_B)                                                      \
        : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [out] "+r"(out), [level] "+r"(level),                      \
          [scale] "+r"(scale), [from] "=&r"(from), [pairs] "+m"(pairs)                                        \
        : OCTET_WORD_OPERANDS, [a_other] "m"(a_other), [b_back] "m"(b_back)                                   \
        : OCTET_VECTORS);                                                                                     \
  }
// clang-format on

using ToWords = void (*)(const Tile&, const TileWords&, std::int64_t pairs);
struct WordTiles {
  ToWords halves, six;  ///< of 12 rows, and of up to six
};
#define OCTET_WORD_TILES(NAME, SCALE, NEXT_SCALE)            \
  OCTET_HALVES_TO_WORDS(NAME##_of_halves, SCALE, NEXT_SCALE) \
  OCTET_SIX_TO_WORDS(NAME##_of_six, SCALE, NEXT_SCALE)       \
  constexpr WordTiles NAME{NAME##_of_halves, NAME##_of_six};

OCTET_WORD_TILES(tiles_to_words, OCTET_NO_SCALE, "")
OCTET_WORD_TILES(tiles_to_scaled_words, OCTET_SCALE, OCTET_NEXT_SCALE)

}  // namespace
}  // namespace octet::cpu::avx512
