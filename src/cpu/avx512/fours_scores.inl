// Q K^T whose sums are stored with the largest of each row and lane beside them, and with the distances of
// other rows: 16 steps of four columns meet a chunk of each of four rows (Zen 5: the sums of 64 channels
// take 8.6 cycles for 16 keys of a row, with the distances 9.1, which take 1.6 by themselves).
#pragma once
#include <cstddef>

#include "cpu/avx512/fours.inl"

namespace octet::cpu::avx512 {
namespace {

// Laid out as it runs.
// clang-format off
// What begins sums (kept apart: sums that begin from it take 0.7 of 9.1 cycles longer, Zen 5), and the largest.
#define OCTET_KEEP(MOST, OFFSET, SUM)                                                            \
  "vpaddd %%zmm20, %%zmm" SUM ", %%zmm" SUM "\n\tvmovdqu64 %%zmm" SUM ", " OFFSET "(%[out])\n\t" \
  "vpmaxsd %%zmm" SUM ", %%zmm" MOST ", %%zmm" MOST "\n\t"
#define OCTET_KEEP_ROW(ROW, MOST, S0, S1, S2, S3)                                                     \
  "vpbroadcastd 4*" ROW "(%[from]), %%zmm20\n\t" OCTET_KEEP(MOST, "0", S0) OCTET_KEEP(MOST, "64", S1) \
  OCTET_KEEP(MOST, "128", S2) OCTET_KEEP(MOST, "192", S3) "add " OCTET_SCORE_ROW ", %[out]\n\t"

// A chunk of a row: the distances of two runs in zmm28 to 31 (IntegerWords::RowView).
#define OCTET_VIEW_FROM "vpbroadcastd (%[view]), %%zmm25\n\t"
#define OCTET_VIEW_RIGHT "vpbroadcastd 64(%[view]), %%zmm27\n\t"
#define OCTET_VIEW_FACTOR "vpbroadcastw 128(%[view]), %%zmm26\n\t"
#define OCTET_BELOW(OFFSET, X) "vpsubd " OFFSET "(%[sums]), %%zmm25, %%zmm" X "\n\t"
#define OCTET_RIGHT(X) "vpsravd %%zmm27, %%zmm" X ", %%zmm" X "\n\t"
#define OCTET_PACK(LOW, HIGH) "vpackusdw %%zmm" HIGH ", %%zmm" LOW ", %%zmm" LOW "\n\t"
#define OCTET_TIMES(X) "vpmulhuw %%zmm26, %%zmm" X ", %%zmm" X "\n\t"
#define OCTET_LEVEL_OF(OFFSET, X) "vpaddusw " OFFSET "(%[level]), %%zmm" X ", %%zmm" X "\n\t"
#define OCTET_DISTANCES_BESIDE                                                                           \
  OCTET_K_STEP("0", OCTET_VIEW_FROM OCTET_VIEW_RIGHT, OCTET_BELOW("", "28"), OCTET_BELOW("64", "29"),    \
               OCTET_BELOW("128", "30"))                                                                 \
  OCTET_K_STEP("4", OCTET_BELOW("192", "31") OCTET_VIEW_FACTOR, OCTET_RIGHT("28"), OCTET_RIGHT("29"),    \
               OCTET_RIGHT("30"))                                                                        \
  OCTET_K_STEP("8", OCTET_RIGHT("31") OCTET_PACK("28", "29"), OCTET_TIMES("28"), OCTET_PACK("30", "31"), \
               OCTET_LEVEL_OF("", "28"))                                                                 \
  OCTET_K_STEP("12", OCTET_TIMES("30") "vmovdqu64 %%zmm28, (%[words])\n\t",                              \
               "vpminuw (%[least]), %%zmm28, %%zmm28%{%%k2%}\n\t", OCTET_LEVEL_OF("64", "30"),           \
               "vmovdqu64 %%zmm30, 64(%[words])\n\tvpminuw %%zmm30, %%zmm28, %%zmm28\n\t"                \
               "vmovdqu64 %%zmm28, (%[least])\n\t")                                                      \
  "add $16, %[a]\n\tadd $4, %[view]\n\tadd $64, %[least]\n\tadd " OCTET_SCORE_ROW ", %[sums]\n\t"        \
  "add " OCTET_WORDS_ROW ", %[words]\n\t"
#define OCTET_PLAIN_K(BYTES) OCTET_K_STEP(BYTES, "", "", "", "")
#define OCTET_PLAIN_FOUR_K OCTET_PLAIN_K("0") OCTET_PLAIN_K("4") OCTET_PLAIN_K("8") OCTET_PLAIN_K("12") "add $16, %[a]\n\t"

/// What register tiles of Q K^T share and begin from: more than an asm's operands. The pointers are of the
/// first tile, and move on to the next one.
struct FoursOfScores {
  const std::byte *a, *b;
  std::byte* out;
  const std::byte *sums, *level, *view;
  std::byte *words, *least;
  const std::int32_t* start;
  const std::byte* before;  ///< the largest sums of columns before
  std::byte* largest;
  std::int64_t tiles, quads, beside;   ///< four rows each; times four columns; of these with distances
  std::int64_t fours, rest;            ///< times four steps, and steps more
  std::int64_t a_back, b_next, out_next, score_row, words_row, words_next, sums_next;  ///< to the next columns
  std::int64_t a_tile, score_tile, words_tile, before_tile;                            ///< to the next rows
  std::int64_t begun;  ///< TileDistances::begun
  std::int64_t left, left_beside;                                                      ///< of quads, of beside
};
#define OCTET_A "(%[f])"
#define OCTET_B "8(%[f])"
#define OCTET_OUT "16(%[f])"
#define OCTET_SUMS "24(%[f])"
#define OCTET_LEVEL_AT "32(%[f])"
#define OCTET_VIEW "40(%[f])"
#define OCTET_WORDS "48(%[f])"
#define OCTET_LEAST "56(%[f])"
#define OCTET_START_AT "64(%[f])"
#define OCTET_BEFORE "72(%[f])"
#define OCTET_LARGEST "80(%[f])"
#define OCTET_TILES "88(%[f])"
#define OCTET_QUADS "96(%[f])"
#define OCTET_QUADS_BESIDE "104(%[f])"
#define OCTET_FOURS "112(%[f])"
#define OCTET_REST_STEPS "120(%[f])"
#define OCTET_A_BACK "128(%[f])"
#define OCTET_B_NEXT "136(%[f])"
#define OCTET_OUT_NEXT "144(%[f])"
#define OCTET_SCORE_ROW "152(%[f])"
#define OCTET_WORDS_ROW "160(%[f])"
#define OCTET_WORDS_NEXT "168(%[f])"
#define OCTET_SUMS_NEXT "176(%[f])"
#define OCTET_A_TILE "184(%[f])"
#define OCTET_SCORE_TILE "192(%[f])"
#define OCTET_WORDS_TILE "200(%[f])"
#define OCTET_BEFORE_TILE "208(%[f])"
#define OCTET_BEGUN "216(%[f])"
#define OCTET_LEFT "224(%[f])"
#define OCTET_LEFT_BESIDE "232(%[f])"
static_assert(offsetof(FoursOfScores, left_beside) == 232);

/// The least number in each lane, of four rows.
struct LeastSums {
  alignas(64) std::int32_t of[kFourRows * kVector / 4];

  constexpr LeastSums() : of{} {
    for (std::int32_t& x : of) x = INT32_MIN;
  }
};
constexpr LeastSums kLeastSums;

__attribute__((noinline, aligned(64))) void fours_of_scores(FoursOfScores& f, std::int64_t row, std::int64_t column) {
  const std::byte *a, *b, *sums, *level, *view;
  std::byte *out, *words, *least;
  std::int64_t from;
  asm volatile(
      "8:\n\t"
      "mov " OCTET_A ", %[a]\n\tmov " OCTET_B ", %[b]\n\tmov " OCTET_OUT ", %[out]\n\tmov " OCTET_SUMS ", %[sums]\n\t"
      "mov " OCTET_LEVEL_AT ", %[level]\n\tmov " OCTET_VIEW ", %[view]\n\tmov " OCTET_WORDS ", %[words]\n\t"
      "mov " OCTET_LEAST ", %[least]\n\tmov " OCTET_QUADS ", %[from]\n\tmov %[from], " OCTET_LEFT "\n\t"
      "mov " OCTET_QUADS_BESIDE ", %[from]\n\tmov %[from], " OCTET_LEFT_BESIDE "\n\t"
      "kmovd " OCTET_BEGUN ", %%k2\n\t"
      "mov " OCTET_BEFORE ", %[from]\n\tvmovdqu64 (%[from]), %%zmm21\n\tvmovdqu64 64(%[from]), %%zmm22\n\t"
      "vmovdqu64 128(%[from]), %%zmm23\n\tvmovdqu64 192(%[from]), %%zmm24\n"
      "5:\n\t"
      OCTET_NONE_4("0", "1", "2", "3") OCTET_NONE_4("4", "5", "6", "7") OCTET_NONE_4("8", "9", "10", "11")
      OCTET_NONE_4("12", "13", "14", "15")
      "mov " OCTET_FOURS ", %[from]\n\tdecq " OCTET_LEFT_BESIDE "\n\tjs 7f\n\t"
      "mov $4, %k[from]\n\t.p2align 6\n6:\n\t"
      OCTET_DISTANCES_BESIDE "dec %[from]\n\tjnz 6b\n\tkxnord %%k2, %%k2, %%k2\n\t"
      "sub $16, %[view]\n\tsub $256, %[least]\n\tadd $128, %[level]\n\t"
      "add " OCTET_WORDS_NEXT ", %[words]\n\tadd " OCTET_SUMS_NEXT ", %[sums]\n\t"
      "mov " OCTET_FOURS ", %[from]\n\tsub $4, %[from]\n7:\n\t"
      "test %[from], %[from]\n\tjz 2f\n\t.p2align 6\n1:\n\t"
      OCTET_PLAIN_FOUR_K "dec %[from]\n\tjnz 1b\n2:\n\t"
      "mov " OCTET_REST_STEPS ", %[from]\n\ttest %[from], %[from]\n\tjz 4f\n3:\n\t"
      OCTET_PLAIN_K("0") "add $4, %[a]\n\tdec %[from]\n\tjnz 3b\n4:\n\t"
      "mov " OCTET_START_AT ", %[from]\n\t"
      OCTET_KEEP_ROW("0", "21", "0", "1", "2", "3") OCTET_KEEP_ROW("1", "22", "4", "5", "6", "7")
      OCTET_KEEP_ROW("2", "23", "8", "9", "10", "11") OCTET_KEEP_ROW("3", "24", "12", "13", "14", "15")
      "add " OCTET_OUT_NEXT ", %[out]\n\tadd " OCTET_B_NEXT ", %[b]\n\tsub " OCTET_A_BACK ", %[a]\n\t"
      "decq " OCTET_LEFT "\n\tjnz 5b\n\t"
      "mov " OCTET_LARGEST ", %[from]\n\tvmovdqu64 %%zmm21, (%[from])\n\tvmovdqu64 %%zmm22, 64(%[from])\n\t"
      "vmovdqu64 %%zmm23, 128(%[from])\n\tvmovdqu64 %%zmm24, 192(%[from])\n\t"
      "addq $256, " OCTET_LARGEST "\n\taddq $256, " OCTET_LEAST "\n\taddq $16, " OCTET_VIEW "\n\taddq $16, " OCTET_START_AT "\n\t"
      OCTET_MOVE_ON(OCTET_A_TILE, OCTET_A) OCTET_MOVE_ON(OCTET_SCORE_TILE, OCTET_OUT)
      OCTET_MOVE_ON(OCTET_SCORE_TILE, OCTET_SUMS) OCTET_MOVE_ON(OCTET_WORDS_TILE, OCTET_WORDS)
      OCTET_MOVE_ON(OCTET_BEFORE_TILE, OCTET_BEFORE)
      "decq " OCTET_TILES "\n\tjnz 8b\n\t"
      : [a] "=&r"(a), [b] "=&r"(b), [out] "=&r"(out), [sums] "=&r"(sums), [level] "=&r"(level), [view] "=&r"(view),
        [words] "=&r"(words), [least] "=&r"(least), [from] "=&r"(from)
      : [f] "r"(&f), [row] "r"(row), [row3] "r"(3 * row), [column] "r"(column), [column3] "r"(3 * column)
      : OCTET_VECTORS, "xmm29", "xmm30", "xmm31", "k2");
}
// clang-format on

/// `quads` times four columns of all rows from `quad` on; distances: beside the first `beside` of them.
void fours_of_scores(const Tile& t, std::byte* largest, std::int64_t quad, std::int64_t quads,
                     const TileDistances& d, std::int64_t beside) {
  FoursOfScores f{t.a,
                  t.b + quad * kFour * t.b_column,
                  t.out + quad * kFour * kVector,
                  d.sums,
                  d.level,
                  d.view,
                  d.words,
                  d.least,
                  t.start,
                  quad > 0 ? largest : reinterpret_cast<const std::byte*>(kLeastSums.of),
                  largest,
                  (t.rows + kFourRows - 1) / kFourRows,
                  quads,
                  beside,
                  t.steps / kFour,
                  t.steps % kFour,
                  kGroupBytes * t.steps,
                  kFour * t.b_column - t.steps * kVector,
                  kFour * (kVector - t.out_row),
                  t.out_row,
                  d.words_row,
                  2 * kVector - kFourRows * d.words_row,
                  kFour * kVector - kFourRows * t.out_row,
                  kFourRows * t.a_row,
                  kFourRows * t.out_row,
                  kFourRows * d.words_row,
                  quad > 0 ? kFourRows * kVector : 0,
                  d.begun,
                  0,
                  0};
  fours_of_scores(f, t.a_row, t.b_column);
}

}  // namespace
}  // namespace octet::cpu::avx512
