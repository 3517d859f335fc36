// Register tiles of 6 rows by 4 columns whose sums end as 64-bit numbers (TileWide), around the instruction
// that multiplies.
#pragma once
#include "cpu/avx512/tiles.inl"

namespace octet::cpu::avx512 {
namespace {

// Lanes 0...7 and 8...15 of a column's sums, times the row's factor in zmm28, with what WITH(offset, product)
// does to them before they are stored.
#define OCTET_NOTHING_THERE(OFFSET, PRODUCT)
#define OCTET_WITH_NUMBERS(OFFSET, PRODUCT) \
  "vpaddq " OFFSET "(%[out]), %%zmm" PRODUCT ", %%zmm" PRODUCT "\n\t"
#define OCTET_WIDE_COLUMN(WITH, SUM) \
  "vpmovsxdq %%ymm" SUM ", %%zmm24\n\tvextracti64x4 $1, %%zmm" SUM ", %%ymm25\n\t"                      \
  "vpmovsxdq %%ymm25, %%zmm25\n\tvpmuldq %%zmm28, %%zmm24, %%zmm24\n\t"                               \
  "vpmuldq %%zmm28, %%zmm25, %%zmm25\n\t" WITH("", "24") WITH("64", "25") "vmovdqu64 %%zmm24, (%[out])" \
  "\n\tvmovdqu64 %%zmm25, 64(%[out])\n\t"
#define OCTET_WIDE_ROW(WITH, ROW, S0, S1, S2, S3) \
  "mov 8*" ROW "(%[rows]), %[out]\n\tvpbroadcastq 8*" ROW "(%[factor]), %%zmm28\n\tadd %[at], %[out]\n\t" \
  OCTET_WIDE_COLUMN(WITH, S0) "add %[out_column], %[out]\n\t" OCTET_WIDE_COLUMN(WITH, S1)               \
  "add %[out_column], %[out]\n\t" OCTET_WIDE_COLUMN(WITH, S2)                                          \
  "add %[out_column], %[out]\n\t" OCTET_WIDE_COLUMN(WITH, S3)

// at: bytes from a row's first column to the tile's.
#define OCTET_TILE_WIDE(NAME, WITH, MUL)                                                            \
  __attribute__((noinline)) void NAME(const Tile& t, const TileWide& w, const std::byte* b,         \
                                      std::int64_t at) {                                            \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row;                                              \
    std::int64_t fours = t.steps / kFour;                                                           \
    const std::int64_t rest = t.steps % kFour;                                                      \
    std::byte* out;                                                                                 \
    asm volatile(OCTET_SUMS_6X4(MUL) OCTET_WIDE_ROW(WITH, "0", "0", "1", "2", "3") OCTET_WIDE_ROW(  \
                     WITH, "1", "4", "5", "6", "7") OCTET_WIDE_ROW(WITH, "2", "8", "9", "10", "11") \
                     OCTET_WIDE_ROW(WITH, "3", "12", "13", "14", "15")                              \
                         OCTET_WIDE_ROW(WITH, "4", "16", "17", "18", "19")                          \
                             OCTET_WIDE_ROW(WITH, "5", "20", "21", "22", "23")                      \
                 : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [fours] "+r"(fours), [out] "=&r"(out)   \
                 : [row] "r"(t.a_row), [column] "r"(t.b_column), [column3] "r"(3 * t.b_column),     \
                   [step] "r"(t.b_step), [start] "r"(t.start), [rest] "m"(rest), [rows] "r"(w.out), \
                   [factor] "r"(w.factor), [at] "r"(at), [out_column] "m"(w.out_column)             \
                 : OCTET_VECTORS);                                                                  \
  }

using TileToWide = void (*)(const Tile&, const TileWide&, const std::byte* b, std::int64_t at);
struct TilesToWide {
  TileToWide add, set;
};
#define OCTET_TILES_WIDE(NAME, MUL)                     \
  OCTET_TILE_WIDE(NAME##_add, OCTET_WITH_NUMBERS, MUL)  \
  OCTET_TILE_WIDE(NAME##_set, OCTET_NOTHING_THERE, MUL) \
  constexpr TilesToWide NAME{NAME##_add, NAME##_set};

/// Whole tiles; returns how many columns they have.
std::int64_t all_wide(const TilesToWide& tiles, const Tile& t, const TileWide& wide, std::int64_t columns) {
  const TileToWide whole = wide.what == TileWide::What::add ? tiles.add : tiles.set;
  const std::int64_t tiled = columns / kColumns * kColumns;
  const auto tile = [&](const Tile& of_rows, const TileWide& into) {
    const std::byte* b = t.b;
    for (std::int64_t c = 0; c < tiled; c += kColumns, b += kColumns * t.b_column)
      whole(of_rows, into, b, c * wide.out_column);
  };
  for_tiles(tile, t, wide);
  return tiled;
}

}  // namespace
}  // namespace octet::cpu::avx512
