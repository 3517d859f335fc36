// P V with the weights of other rows beside it: 16 steps meet a chunk of each of four rows. The weights'
// shifts, additions and shuffles run on the pipes that do not multiply, and the processor would not look for
// them past a tile's waiting products (Zen 5: P V of 64 channels takes 9.2 cycles for 16 keys of a row, with
// the weights 10.3, which take 2.5 by themselves).
#pragma once
#include <algorithm>
#include <cstddef>

#include "cpu/avx512/fours.inl"
#include "numerics/fixed16.h"

namespace octet::cpu::avx512 {
namespace {

/// What the weights take, in the order of their registers.
struct WeightConstants {
  alignas(64) std::uint16_t curve[32], slope[32], one[32], largest_code[32];
  std::int32_t order[16];  ///< of fours of codes that packs leave
  std::int32_t upper[16];  ///< lanes 8...15 in the lower halves of 64 bits

  using Mantissa = fixed16::AccurateMantissa;
  constexpr WeightConstants() : curve{}, slope{}, one{}, largest_code{}, order{}, upper{} {
    for (int i = 0; i < 32; ++i) {
      curve[i] = Mantissa::kCurve, slope[i] = Mantissa::kSlope, one[i] = Mantissa::kOne;
      largest_code[i] = 255;
    }
    for (int i = 0; i < 16; ++i) order[i] = i % 4 * 4 + i / 4, upper[i] = 8 + i / 2;
  }
};
constexpr WeightConstants kWeightConstants;

// Laid out as it runs.
// clang-format off
// A chunk: z of two vectors of words in zmm27 and 30, their fractions in 28 and 31, which become the weights.
#define OCTET_Z(OFFSET, Z, X)                                                                \
  "vmovdqu64 " OFFSET "(%[words]), %%zmm" Z "\n\tvpsubw %%zmm29, %%zmm" Z ", %%zmm" Z "\n\t" \
  "vpsllw $6, %%zmm" Z ", %%zmm" X "\n\t"
#define OCTET_SLOPE(X) "vpmulhuw %%zmm21, %%zmm" X ", %%zmm29\n\tvpsubw %%zmm29, %%zmm22, %%zmm29\n\t"
#define OCTET_MANTISSA(X) "vpmulhuw %%zmm29, %%zmm" X ", %%zmm" X "\n\tvpsubw %%zmm" X ", %%zmm23, %%zmm" X "\n\t"
#define OCTET_SHIFT(Z, X) "vpsrlw $10, %%zmm" Z ", %%zmm" Z "\n\tvpsrlvw %%zmm" Z ", %%zmm" X ", %%zmm" X "\n\t"
#define OCTET_HALVE(X) "vpavgw %%zmm26, %%zmm" X ", %%zmm" X "\n\t"
#define OCTET_CHUNK_0 "vpbroadcastw (%[reference]), %%zmm29\n\t" OCTET_Z("", "27", "28")
#define OCTET_CHUNK_1 OCTET_Z("64", "30", "31")
#define OCTET_CHUNK_2 OCTET_SLOPE("28")
#define OCTET_CHUNK_3 OCTET_MANTISSA("28")
#define OCTET_CHUNK_4 OCTET_SLOPE("31")
#define OCTET_CHUNK_5 OCTET_SHIFT("27", "28")
#define OCTET_CHUNK_6 OCTET_MANTISSA("31")
#define OCTET_CHUNK_7 OCTET_HALVE("28") "vpxord %%zmm29, %%zmm29, %%zmm29\n\t"
#define OCTET_CHUNK_8 OCTET_SHIFT("30", "31")
#define OCTET_CHUNK_9 "vpdpwssd (%[multiplier]), %%zmm28, %%zmm29\n\t" OCTET_HALVE("31")
#define OCTET_CHUNK_10 "vpmulhrsw %%zmm24, %%zmm28, %%zmm28\n\tvpdpwssd 64(%[multiplier]), %%zmm31, %%zmm29\n\t"
// The unsigned 32-bit sums in lanes 2 i and 2 i + 1 to lane i of the row's.
#define OCTET_CHUNK_11 "vpmulhrsw %%zmm24, %%zmm31, %%zmm31\n\tvpsrlq $32, %%zmm29, %%zmm27\n\t"
#define OCTET_CHUNK_12 "vpackuswb %%zmm31, %%zmm28, %%zmm28\n\tvmovdqa32 %%zmm29, %%zmm29%{%%k1%}%{z%}\n\t"
#define OCTET_CHUNK_13 "vpaddq (%[mass]), %%zmm27, %%zmm27%{%%k2%}\n\tvpermd %%zmm28, %%zmm25, %%zmm28\n\t"
#define OCTET_CHUNK_14 "vpaddq %%zmm29, %%zmm27, %%zmm27\n\tvmovdqu64 %%zmm28, (%[p])\n\tadd $4, %[reference]\n\t"
#define OCTET_CHUNK_15 \
  "vmovdqu64 %%zmm27, (%[mass])\n\tadd $64, %[mass]\n\tadd " OCTET_WORDS_BY ", %[words]\n\tadd " OCTET_CODES_BY ", %[p]\n\t"
// Four steps beside a chunk of one row.
#define OCTET_STEPS_BESIDE                                                           \
  OCTET_V_STEP("0", OCTET_CHUNK_0, OCTET_CHUNK_1, OCTET_CHUNK_2, OCTET_CHUNK_3)      \
  OCTET_V_STEP("4", OCTET_CHUNK_4, OCTET_CHUNK_5, OCTET_CHUNK_6, OCTET_CHUNK_7)      \
  OCTET_V_STEP("8", OCTET_CHUNK_8, OCTET_CHUNK_9, OCTET_CHUNK_10, OCTET_CHUNK_11)    \
  OCTET_V_STEP("12", OCTET_CHUNK_12, OCTET_CHUNK_13, OCTET_CHUNK_14, OCTET_CHUNK_15) \
  "add $16, %[a]\n\t"

#define OCTET_TAKE(S0, S1, S2, S3)                                                                          \
  "vmovdqu64 (%[from]), %%zmm" S0 "\n\tvmovdqu64 64(%[from]), %%zmm" S1 "\n\tvmovdqu64 128(%[from]), %%zmm" \
  S2 "\n\tvmovdqu64 192(%[from]), %%zmm" S3 "\n\tadd " OCTET_SUMS_ROW ", %[from]\n\t"
// What sums begin from: nothing, or those that are stored where the tile's go.
#define OCTET_FOURS_FROM_NONE                                                                                \
  OCTET_NONE_4("0", "1", "2", "3") OCTET_NONE_4("4", "5", "6", "7") OCTET_NONE_4("8", "9", "10", "11") \
  OCTET_NONE_4("12", "13", "14", "15")
#define OCTET_FROM_STORED                                                                            \
  "mov " OCTET_SUMS_AT ", %[from]\n\t" OCTET_TAKE("0", "1", "2", "3") OCTET_TAKE("4", "5", "6", "7") \
  OCTET_TAKE("8", "9", "10", "11") OCTET_TAKE("12", "13", "14", "15")
// The sums of all steps in zmm0...15, row by row.
#define OCTET_SUMS_BESIDE                                                                                                    \
  "mov " OCTET_CHUNKS ", %[from]\n\ttest %[from], %[from]\n\tjz 2f\n\t"                                                      \
  "mov $0x5555, %k[from]\n\tkmovw %k[from], %%k1\n\tkmovw " OCTET_BEGUN_MASSES ", %%k2\n\tmov " OCTET_CHUNKS ", %[from]\n\t" \
  "vmovdqa64 (%[constants]), %%zmm21\n\tvmovdqa64 64(%[constants]), %%zmm22\n\t"                                             \
  "vmovdqa64 128(%[constants]), %%zmm23\n\tvmovdqa64 192(%[constants]), %%zmm24\n\t"                                         \
  "vmovdqa64 256(%[constants]), %%zmm25\n\t" OCTET_NONE("26") "1:\n\t"                                                       \
  "mov $4, %k[rows]\n\t.p2align 6\n8:\n\t" OCTET_STEPS_BESIDE "dec %[rows]\n\tjnz 8b\n\t"                                    \
  "add " OCTET_WORDS_BACK ", %[words]\n\tadd " OCTET_CODES_BACK ", %[p]\n\tsub $256, %[mass]\n\tsub $16, %[reference]\n\t"   \
  "add $128, %[multiplier]\n\tkxnorw %%k2, %%k2, %%k2\n\tdec %[from]\n\tjnz 1b\n2:\n\t"                                      \
  "mov " OCTET_FOURS_LEFT ", %[from]\n\ttest %[from], %[from]\n\tjz 6f\n\t.p2align 5\n5:\n\t"                                \
  OCTET_V_STEP("0", "", "", "", "") OCTET_V_STEP("4", "", "", "", "") OCTET_V_STEP("8", "", "", "", "")                      \
  OCTET_V_STEP("12", "", "", "", "") "add $16, %[a]\n\tdec %[from]\n\tjnz 5b\n6:\n\t"                                        \
  "mov " OCTET_STEPS_LEFT ", %[from]\n\ttest %[from], %[from]\n\tjz 4f\n3:\n\t"                                              \
  OCTET_V_STEP("0", "", "", "", "") "add $4, %[a]\n\tdec %[from]\n\tjnz 3b\n4:\n\t"

// What a row's sums become, ROW, and the sums: stored, added to wide numbers or set in their place. %[p] is
// where, %[a] and %[words] are the rows' wide numbers and factors by then.
#define OCTET_BESIDE_STORE(ROW, S0, S1, S2, S3)                                            \
  "vmovdqu64 %%zmm" S0 ", (%[p])\n\tvmovdqu64 %%zmm" S1 ", 64(%[p])\n\tvmovdqu64 %%zmm" S2 \
  ", 128(%[p])\n\tvmovdqu64 %%zmm" S3 ", 192(%[p])\n\tadd " OCTET_NEXT ", %[p]\n\t"
#define OCTET_NOTHING_THERE(OFFSET, PRODUCT)
#define OCTET_WITH_NUMBERS(OFFSET, PRODUCT) "vpaddq " OFFSET "(%[p]), %%zmm" PRODUCT ", %%zmm" PRODUCT "\n\t"
// Lanes 0...7 and 8...15 of a column's sums, times the row's factor in zmm20: of each 64 bits the lower half
// counts. zmm25: which lanes the second ones are.
#define OCTET_WIDE_COLUMN(WITH, LOW, HIGH, SUM)                                                      \
  "vpmovzxdq %%ymm" SUM ", %%zmm" LOW "\n\tvpermd %%zmm" SUM ", %%zmm25, %%zmm" HIGH "\n\t"          \
  "vpmuldq %%zmm20, %%zmm" LOW ", %%zmm" LOW "\n\tvpmuldq %%zmm20, %%zmm" HIGH ", %%zmm" HIGH "\n\t" \
  WITH("", LOW) WITH("64", HIGH)                                                                     \
  "vmovdqu64 %%zmm" LOW ", (%[p])\n\tvmovdqu64 %%zmm" HIGH ", 64(%[p])\n\t"
#define OCTET_WIDE_ROW(WITH, ROW, S0, S1, S2, S3)                                                                \
  "mov 8*" ROW "(%[a]), %[p]\n\tvpbroadcastq 8*" ROW "(%[words]), %%zmm20\n\tadd " OCTET_AT ", %[p]\n\t"         \
  OCTET_WIDE_COLUMN(WITH, "16", "17", S0) "add " OCTET_NEXT ", %[p]\n\t" OCTET_WIDE_COLUMN(WITH, "18", "19", S1) \
  "add " OCTET_NEXT ", %[p]\n\t" OCTET_WIDE_COLUMN(WITH, "21", "22", S2) "add " OCTET_NEXT ", %[p]\n\t"          \
  OCTET_WIDE_COLUMN(WITH, "23", "24", S3)
#define OCTET_WIDE_ADD(...) OCTET_WIDE_ROW(OCTET_WITH_NUMBERS, __VA_ARGS__)
#define OCTET_WIDE_SET(...) OCTET_WIDE_ROW(OCTET_NOTHING_THERE, __VA_ARGS__)

/// Where sums go: numbers of 64 bits, or sums as they are.
struct FoursEnd {
  std::byte* const* rows;      ///< of wide numbers: TileWide::out
  const std::int64_t* factor;  ///< the same: TileWide::factor
  std::int64_t at;             ///< the address of sums; bytes to the first column of wide numbers
  std::int64_t next, tile;  ///< from a row of sums to the next, and four; from a column of numbers, and 0
};

/// What register tiles of P V share and begin from, as FoursOfScores.
struct FoursOfOutputs {
  const std::byte *a, *b, *words, *multiplier;
  std::byte *p, *mass;
  const std::byte* sums;  ///< to begin from
  std::byte* const* rows;
  std::int64_t at;
  const std::int32_t* reference;
  const std::int64_t* factor;
  std::int64_t next, at_tile, tiles, beside, fours, rest, step, words_row, p_row, words_next, p_next, sums_row;
  std::int64_t a_tile, words_tile, p_tile, sums_tile;
  std::int64_t begun;  ///< TileWeights::begun
};
#define OCTET_P_AT "(%[f])"
#define OCTET_V_AT "8(%[f])"
#define OCTET_WORDS_AT "16(%[f])"
#define OCTET_MULTIPLIER "24(%[f])"
#define OCTET_CODES "32(%[f])"
#define OCTET_MASS "40(%[f])"
#define OCTET_SUMS_AT "48(%[f])"
#define OCTET_NUMBERS "56(%[f])"
#define OCTET_AT "64(%[f])"
#define OCTET_REFERENCE "72(%[f])"
#define OCTET_FACTOR "80(%[f])"
#define OCTET_NEXT "88(%[f])"
#define OCTET_AT_TILE "96(%[f])"
#define OCTET_ROW_TILES "104(%[f])"
#define OCTET_CHUNKS "112(%[f])"
#define OCTET_FOURS_LEFT "120(%[f])"
#define OCTET_STEPS_LEFT "128(%[f])"
#define OCTET_V_ROW "136(%[f])"
#define OCTET_WORDS_BY "144(%[f])"
#define OCTET_CODES_BY "152(%[f])"
#define OCTET_WORDS_BACK "160(%[f])"
#define OCTET_CODES_BACK "168(%[f])"
#define OCTET_SUMS_ROW "176(%[f])"
#define OCTET_P_TILE "184(%[f])"
#define OCTET_WORDS_FOUR "192(%[f])"
#define OCTET_CODES_FOUR "200(%[f])"
#define OCTET_SUMS_FOUR "208(%[f])"
#define OCTET_BEGUN_MASSES "216(%[f])"
static_assert(offsetof(FoursOfOutputs, begun) == 216);

// All rows of four columns.
#define OCTET_TILE_BESIDE(NAME, FROM, END)                                                                        \
  __attribute__((noinline, aligned(64))) void NAME(FoursOfOutputs& f, std::int64_t row) {                         \
    const std::byte *a, *b, *words, *multiplier;                                                                  \
    std::byte *p, *mass;                                                                                          \
    const std::int32_t* reference;                                                                                \
    std::int64_t from, rows;                                                                                      \
    asm volatile(                                                                                                 \
        "9:\n\t"                                                                                                  \
        "mov " OCTET_P_AT ", %[a]\n\tmov " OCTET_V_AT ", %[b]\n\tmov " OCTET_WORDS_AT ", %[words]\n\t"            \
        "mov " OCTET_MULTIPLIER ", %[multiplier]\n\tmov " OCTET_CODES ", %[p]\n\tmov " OCTET_MASS ", %[mass]\n\t" \
        "mov " OCTET_REFERENCE ", %[reference]\n\t"                                                               \
        FROM OCTET_SUMS_BESIDE                                                                                    \
        "mov " OCTET_NUMBERS ", %[a]\n\tmov " OCTET_FACTOR ", %[words]\n\tmov " OCTET_AT ", %[p]\n\t"             \
        "vmovdqa64 320(%[constants]), %%zmm25\n\t"                                                                \
        END("0", "0", "1", "2", "3") END("1", "4", "5", "6", "7") END("2", "8", "9", "10", "11")                  \
        END("3", "12", "13", "14", "15")                                                                          \
        "addq $256, " OCTET_MASS "\n\taddq $16, " OCTET_REFERENCE "\n\t"                                          \
        "addq $32, " OCTET_NUMBERS "\n\taddq $32, " OCTET_FACTOR "\n\t"                                           \
        OCTET_MOVE_ON(OCTET_P_TILE, OCTET_P_AT) OCTET_MOVE_ON(OCTET_WORDS_FOUR, OCTET_WORDS_AT)                   \
        OCTET_MOVE_ON(OCTET_CODES_FOUR, OCTET_CODES) OCTET_MOVE_ON(OCTET_SUMS_FOUR, OCTET_SUMS_AT)                \
        OCTET_MOVE_ON(OCTET_AT_TILE, OCTET_AT)                                                                    \
        "decq " OCTET_ROW_TILES "\n\tjnz 9b\n\t"                                                                  \
        : [a] "=&r"(a), [b] "=&r"(b), [words] "=&r"(words), [p] "=&r"(p), [mass] "=&r"(mass),                     \
          [reference] "=&r"(reference), [multiplier] "=&r"(multiplier), [from] "=&r"(from),                       \
          [rows] "=&r"(rows)                                                                                      \
        : [f] "r"(&f), [row] "r"(row), [row3] "r"(3 * row), [constants] "r"(&kWeightConstants)                    \
        : OCTET_VECTORS, "xmm29", "xmm30", "xmm31", "k1", "k2");                                                  \
  }
// clang-format on

using TilesByFours = void (*)(FoursOfOutputs& f, std::int64_t row);
struct TilesOfFours {
  TilesByFours whole, rest;  ///< rest: of sums that begin from stored ones
};
#define OCTET_TILES_BESIDE(NAME, END)                         \
  OCTET_TILE_BESIDE(NAME##_rest, OCTET_FROM_STORED, END)      \
  OCTET_TILE_BESIDE(NAME##_whole, OCTET_FOURS_FROM_NONE, END) \
  constexpr TilesOfFours NAME{NAME##_whole, NAME##_rest};

OCTET_TILES_BESIDE(fours_stored, OCTET_BESIDE_STORE)
OCTET_TILES_BESIDE(fours_set, OCTET_WIDE_SET)
OCTET_TILES_BESIDE(fours_added, OCTET_WIDE_ADD)

/// Where sums are stored, of which others may begin.
FoursEnd stored(const Tile& t) {
  return {nullptr, nullptr, reinterpret_cast<std::int64_t>(t.out), t.out_row, kFourRows * t.out_row};
}

/// One piece of V.
void piece_beside(TilesByFours tiles, const Tile& t, const TileWeights& w, std::int64_t columns,
                  const FoursEnd& end) {
  const std::int64_t chunks = w.beside(t.steps), column_bytes = end.tile > 0 ? kVector : end.next;
  for (std::int64_t column = 0; column < columns; column += kColumns) {
    const std::int64_t beside = column == 0 ? chunks : 0, steps = t.steps - beside * TileWeights::kSteps;
    FoursOfOutputs f{t.a,
                     t.b + column * kVector,
                     w.words,
                     w.multiplier,
                     w.p,
                     w.mass,
                     t.out + column * kVector,
                     end.rows,
                     end.at + column * column_bytes,
                     w.reference,
                     end.factor,
                     end.next,
                     end.tile,
                     (t.rows + kFourRows - 1) / kFourRows,
                     beside,
                     steps / kFour,
                     steps % kFour,
                     t.b_step,
                     w.words_row,
                     w.p_row,
                     2 * kVector - kFourRows * w.words_row,
                     kVector - kFourRows * w.p_row,
                     t.out_row,
                     kFourRows * t.a_row,
                     kFourRows * w.words_row,
                     kFourRows * w.p_row,
                     kFourRows * t.out_row,
                     w.begun};
    tiles(f, t.a_row);
  }
}

/// Whole tiles of columns, beside the first of which are a call's weights; returns how many columns they
/// have.
std::int64_t fours_beside(const TilesOfFours& tiles, const Tile& t, const TileWeights* weights,
                          std::int64_t columns, const FoursEnd& end) {
  constexpr std::int64_t kSteps = kPieceBytes / (kColumns * kVector), kChunks = kSteps / TileWeights::kSteps;
  static_assert(kSteps % TileWeights::kSteps == 0);
  static constexpr TileWeights kNone{};
  const std::int64_t tiled = columns / kColumns * kColumns;
  if (t.steps <= kSteps) {
    piece_beside(tiles.whole, t, weights ? *weights : kNone, tiled, end);
    return tiled;
  }
  Tile piece = t;
  TileWeights beside = weights ? *weights : kNone;
  for (std::int64_t left = t.steps; left > 0; left -= kSteps) {
    piece.steps = std::min(left, kSteps);
    if (left > kSteps)
      piece_beside(left < t.steps ? fours_stored.rest : fours_stored.whole, piece, beside, tiled, stored(t));
    else
      piece_beside(tiles.rest, piece, beside, tiled, end);
    piece.a += kSteps * kGroupBytes, piece.b += kSteps * t.b_step;
    beside = beside.after(std::min(kChunks, beside.chunks));
  }
  return tiled;
}

}  // namespace
}  // namespace octet::cpu::avx512
