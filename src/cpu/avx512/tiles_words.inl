// Q K^T that ends in words or scores: two columns at a time, in two sets of 12 sums by turns. While one set
// is multiplied, the other becomes words; the words of a row are one vector, 32 keys, its scores two. One set
// after another would leave the multipliers idle for a quarter of the time at a head dim of 64. Of 12 rows
// the sets are the first six and the others of the same columns, so that K is read once for all of them.
#pragma once
#include "cpu/avx512/tiles.inl"

namespace octet::cpu::avx512 {
namespace {

/// Steps of a set, at least: one for each row. An even number, for the others go by twos.
constexpr int kWovenSteps = 6;
static_assert(kWovenSteps % 2 == 0);

/// TileWords, or TileScores, whose scales of keys take the place of levels.
struct TileEnds {
  const float *factor, *scale, *level;
  std::byte* out;
  std::int64_t out_row;
};

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
#define OCTET_PAIR_ROW(ADDRESS, S0, S1)        \
  "vpbroadcastd " ADDRESS ", %%zmm28\n\t"      \
  "vpdpbusd %%zmm28, %%zmm24, %%zmm" S0 "\n\t" \
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
// Row ROW's two vectors of sums of the other set become what KIND says, in four parts behind OCTET_CONVERT.
// What goes with the keys of the two columns is in zmm26 and zmm27: levels of words, scales of scores.
#define OCTET_CONVERT(S0, S1) "vcvtdq2ps %%zmm" S0 ", %%zmm" S0 "\n\tvcvtdq2ps %%zmm" S1 ", %%zmm" S1 "\n\t"
#define OCTET_WOVEN_STEP(KIND, AT, ROW, E0, E1, ...)                             \
  OCTET_PAIR_STEP(AT, __VA_ARGS__, OCTET_CONVERT(E0, E1), KIND##_1(ROW, E0, E1), \
                  KIND##_2(ROW, E0, E1), KIND##_3(E0, E1), KIND##_4(E0, E1), "")
#define OCTET_ROW_END(KIND, ROW, E0, E1) \
  OCTET_CONVERT(E0, E1) KIND##_1(ROW, E0, E1) KIND##_2(ROW, E0, E1) KIND##_3(E0, E1) KIND##_4(E0, E1)
#define OCTET_NEXT_ROW "add %[out_row], %[out]\n\t"

// sum * factor + level, rounded and packed.
#define OCTET_LEVEL(ROW, LEVEL, SUM) \
  "vfmadd132ps 4*" ROW "(%[factor])%{1to16%}, %%zmm" LEVEL ", %%zmm" SUM "\n\t"
#define OCTET_TO_WORDS_1(ROW, S0, S1)
#define OCTET_TO_WORDS_2(ROW, S0, S1) OCTET_LEVEL(ROW, "26", S0) OCTET_LEVEL(ROW, "27", S1)
#define OCTET_TO_WORDS_3(S0, S1) "vcvtps2dq %%zmm" S0 ", %%zmm" S0 "\n\tvcvtps2dq %%zmm" S1 ", %%zmm" S1 "\n\t"
#define OCTET_TO_WORDS_4(S0, S1)                                          \
  "vpackusdw %%zmm" S1 ", %%zmm" S0 ", %%zmm" S0 "\n\tvmovdqu64 %%zmm" S0 \
  ", (%[out])\n\t" OCTET_NEXT_ROW
#define OCTET_TO_WORDS_NEXT ""
#define OCTET_TO_WORDS_BYTES 64  // of a row's two columns

// The same of sum * scale.
#define OCTET_SCALE(OFFSET, SUM) "vmulps " OFFSET "(%[scale]), %%zmm" SUM ", %%zmm" SUM "\n\t"
#define OCTET_TO_SCALED_WORDS_1(ROW, S0, S1) OCTET_SCALE("0", S0) OCTET_SCALE("64", S1)
#define OCTET_TO_SCALED_WORDS_2(ROW, S0, S1) OCTET_TO_WORDS_2(ROW, S0, S1)
#define OCTET_TO_SCALED_WORDS_3(S0, S1) OCTET_TO_WORDS_3(S0, S1)
#define OCTET_TO_SCALED_WORDS_4(S0, S1) OCTET_TO_WORDS_4(S0, S1)
#define OCTET_TO_SCALED_WORDS_NEXT "add $128, %[scale]\n\t"
#define OCTET_TO_SCALED_WORDS_BYTES 64

// sum * (scale * factor).
#define OCTET_SCORE(ROW, SCALE, SUM)                                  \
  "vmulps 4*" ROW "(%[factor])%{1to16%}, %%zmm" SCALE ", %%zmm28\n\t" \
  "vmulps %%zmm28, %%zmm" SUM ", %%zmm" SUM "\n\t"
#define OCTET_TO_SCORES_1(ROW, S0, S1) OCTET_SCORE(ROW, "26", S0)
#define OCTET_TO_SCORES_2(ROW, S0, S1) OCTET_SCORE(ROW, "27", S1)
#define OCTET_TO_SCORES_3(S0, S1) "vmovups %%zmm" S0 ", (%[out])\n\t"
#define OCTET_TO_SCORES_4(S0, S1) "vmovups %%zmm" S1 ", 64(%[out])\n\t" OCTET_NEXT_ROW
#define OCTET_TO_SCORES_NEXT ""
#define OCTET_TO_SCORES_BYTES 128

#define OCTET_LEVELS "vmovups (%[level]), %%zmm26\n\tvmovups 64(%[level]), %%zmm27\n\t"
// On to the next two columns' words.
#define OCTET_NEXT_WORDS(KIND) "add $128, %[level]\n\tsub %[out_back], %[out]\n\t" KIND##_NEXT
// The steps of one set of sums beside the words of the other, rows R0...R5.
#define OCTET_WOVEN_6(KIND, R0, R1, R2, R3, R4, R5, E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, ...) \
  OCTET_LEVELS OCTET_WOVEN_STEP(KIND, "0", R0, E0, E1, __VA_ARGS__)                                        \
      OCTET_WOVEN_STEP(KIND, "1", R1, E2, E3, __VA_ARGS__)                                                 \
          OCTET_WOVEN_STEP(KIND, "2", R2, E4, E5, __VA_ARGS__)                                             \
              OCTET_WOVEN_STEP(KIND, "3", R3, E6, E7, __VA_ARGS__)                                         \
                  OCTET_WOVEN_STEP(KIND, "4", R4, E8, E9, __VA_ARGS__)                                     \
                      OCTET_WOVEN_STEP(KIND, "5", R5, E10, E11, __VA_ARGS__) OCTET_STEPS_ON("6")
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
#define OCTET_LAST_6(KIND, R0, R1, R2, R3, R4, R5, E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11) \
  OCTET_LEVELS OCTET_ROW_END(KIND, R0, E0, E1) OCTET_ROW_END(KIND, R1, E2, E3)                       \
      OCTET_ROW_END(KIND, R2, E4, E5) OCTET_ROW_END(KIND, R3, E6, E7)                                \
          OCTET_ROW_END(KIND, R4, E8, E9) OCTET_ROW_END(KIND, R5, E10, E11)
#define OCTET_LAST(...) OCTET_LAST_6(__VA_ARGS__)

// What the tiles of six and of 12 rows are given.
#define OCTET_WORD_OPERANDS                                                                         \
  [row] "r"(t.a_row), [column] "r"(t.b_column), [factor] "r"(w.factor), [out_row] "r"(w.out_row),   \
      [start] "m"(t.start), [all] "m"(all), [rest] "m"(rest), [odd] "m"(odd), [a_back] "m"(a_back), \
      [b_next] "m"(b_next), [out_back] "m"(out_back)

// `pairs` times two columns of six rows: columns by turns.
#define OCTET_SIX_TO_WORDS(NAME, KIND)                                                        \
  __attribute__((noinline)) void NAME(const Tile& t, const TileEnds& w, std::int64_t pairs) { \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row, *b = t.b;                              \
    std::byte* out = w.out;                                                                   \
    const float *level = w.level, *scale = w.scale;                                           \
    const std::int64_t a_back = 4 * t.steps, b_next = 2 * t.b_column - t.steps * kVector,     \
                       out_back = kTileRows * w.out_row - KIND##_BYTES, all = t.steps / 2,    \
                       rest = (t.steps - kWovenSteps) / 2, odd = t.steps % 2;                 \
    std::int64_t from;                                                                        \
    asm volatile(                                                                             \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                        \
        OCTET_ALONE_OF("0", OCTET_SET_A)                                                      \
        OCTET_NEXT_PAIR                                                                       \
        "jmp 7f\n"                                                                            \
        "6:\n\t"                                                                              \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                        \
        OCTET_WOVEN(KIND, OCTET_FIRST_ROWS, OCTET_SET_B, OCTET_SET_A)                         \
        OCTET_REST_OF("3", OCTET_SET_A)                                                       \
        OCTET_NEXT_PAIR                                                                       \
        OCTET_NEXT_WORDS(KIND)                                                                \
        "7:\n\t"                                                                              \
        "decq %[pairs]\n\t"                                                                   \
        "jz 8f\n\t"                                                                           \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_B)                                        \
        OCTET_WOVEN(KIND, OCTET_FIRST_ROWS, OCTET_SET_A, OCTET_SET_B)                         \
        OCTET_REST_OF("4", OCTET_SET_B)                                                       \
        OCTET_NEXT_PAIR                                                                       \
        OCTET_NEXT_WORDS(KIND)                                                                \
        "decq %[pairs]\n\t"                                                                   \
        "jnz 6b\n\t"                                                                          \
        OCTET_LAST(KIND, OCTET_FIRST_ROWS, OCTET_SET_B)                                       \
        "jmp 9f\n"                                                                            \
        "8:\n\t"                                                                              \
        OCTET_LAST(KIND, OCTET_FIRST_ROWS, OCTET_SET_A)                                       \
        "9:\n\t"                                                                              \
        : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [out] "+r"(out), [level] "+r"(level),      \
          [scale] "+r"(scale), [from] "=&r"(from), [pairs] "+m"(pairs)                        \
        : OCTET_WORD_OPERANDS                                                                 \
        : OCTET_VECTORS);                                                                     \
  }

// The same of 12 rows: the halves by turns. The words of the other half of a pair come beside the first half's
// steps of the next one.
#define OCTET_HALVES_TO_WORDS(NAME, KIND)                                                                     \
  __attribute__((noinline)) void NAME(const Tile& t, const TileEnds& w, std::int64_t pairs) {                 \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row, *b = t.b;                                              \
    std::byte* out = w.out;                                                                                   \
    const float *level = w.level, *scale = w.scale;                                                           \
    const std::int64_t half = kTileRows * t.a_row, a_other = half - 4 * t.steps, a_back = half + 4 * t.steps, \
                       b_back = t.steps * kVector, b_next = 2 * t.b_column - b_back,                          \
                       out_back = kRows * w.out_row - KIND##_BYTES, all = t.steps / 2,                        \
                       rest = (t.steps - kWovenSteps) / 2, odd = t.steps % 2;                                 \
    std::int64_t from;                                                                                        \
    asm volatile(                                                                                             \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                                        \
        OCTET_ALONE_OF("0", OCTET_SET_A)                                                                      \
        OCTET_OTHER_HALF                                                                                      \
        "jmp 7f\n"                                                                                            \
        "6:\n\t"                                                                                              \
        OCTET_START_SET(OCTET_FIRST_ROWS, OCTET_SET_A)                                                        \
        OCTET_WOVEN(KIND, OCTET_OTHER_ROWS, OCTET_SET_B, OCTET_SET_A)                                         \
        OCTET_REST_OF("3", OCTET_SET_A)                                                                       \
        OCTET_OTHER_HALF                                                                                      \
        OCTET_NEXT_WORDS(KIND)                                                                                \
        "7:\n\t"                                                                                              \
        OCTET_START_SET(OCTET_OTHER_ROWS, OCTET_SET_B)                                                        \
        OCTET_WOVEN(KIND, OCTET_FIRST_ROWS, OCTET_SET_A, OCTET_SET_B)                                         \
        OCTET_REST_OF("4", OCTET_SET_B)                                                                       \
        OCTET_NEXT_PAIR                                                                                       \
        "decq %[pairs]\n\t"                                                                                   \
        "jnz 6b\n\t"                                                                                          \
        OCTET_LAST(KIND, OCTET_OTHER_ROWS, OCTET_SET_B)                                                       \
        : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [out] "+r"(out), [level] "+r"(level),                      \
          [scale] "+r"(scale), [from] "=&r"(from), [pairs] "+m"(pairs)                                        \
        : OCTET_WORD_OPERANDS, [a_other] "m"(a_other), [b_back] "m"(b_back)                                   \
        : OCTET_VECTORS);                                                                                     \
  }
// clang-format on

using WordTile = void (*)(const Tile&, const TileEnds&, std::int64_t pairs);
struct WordTiles {
  WordTile halves, six;  ///< of 12 rows, and of up to six
};
#define OCTET_WORD_TILES(NAME, KIND)            \
  OCTET_HALVES_TO_WORDS(NAME##_of_halves, KIND) \
  OCTET_SIX_TO_WORDS(NAME##_of_six, KIND)       \
  constexpr WordTiles NAME{NAME##_of_halves, NAME##_of_six};

OCTET_WORD_TILES(tiles_to_words, OCTET_TO_WORDS)
OCTET_WORD_TILES(tiles_to_scaled_words, OCTET_TO_SCALED_WORDS)
OCTET_WORD_TILES(tiles_to_scores, OCTET_TO_SCORES)

}  // namespace
}  // namespace octet::cpu::avx512
