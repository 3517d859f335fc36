// The register tiles of AVX-512 around the instruction that multiplies, included by the TU of each set that
// has one: 6 rows by 4 columns of 16 sums, and what is narrower.
//
// The 6 x 4 tile is one block of assembly: 24 sums, 4 columns and a broadcast are 29 of 32 registers, and gcc
// 12 spills them in every form of intrinsics that was tried. Narrower tiles have registers to spare.
#pragma once
#include <immintrin.h>

#include "base/ask_for.h"
#include "cpu/avx512/products.h"

namespace octet::cpu::avx512 {
namespace {

constexpr int kColumns = 4, kVector = 64, kFour = 4;

// One row of a step: the row's group in every lane, times four columns. MUL(column, sum) is the instruction;
// AT&T order, the sum last.
#define OCTET_ROW(MUL, ADDRESS, S0, S1, S2, S3) \
  "vpbroadcastd " ADDRESS ", %%zmm28\n\t" MUL("24", S0) MUL("25", S1) MUL("26", S2) MUL("27", S3)
// A step whose groups lie BYTES behind those of the first.
#define OCTET_STEP(MUL, BYTES)                                                                  \
  "vmovdqu64 (%[b]), %%zmm24\n\t"                                                               \
  "vmovdqu64 (%[b],%[column]), %%zmm25\n\t"                                                     \
  "vmovdqu64 (%[b],%[column],2), %%zmm26\n\t"                                                   \
  "vmovdqu64 (%[b],%[column3]), %%zmm27\n\t" OCTET_ROW(MUL, BYTES "(%[a])", "0", "1", "2", "3") \
      OCTET_ROW(MUL, BYTES "(%[a],%[row])", "4", "5", "6", "7")                                 \
          OCTET_ROW(MUL, BYTES "(%[a],%[row],2)", "8", "9", "10", "11")                         \
              OCTET_ROW(MUL, BYTES "(%[a3])", "12", "13", "14", "15")                           \
                  OCTET_ROW(MUL, BYTES "(%[a3],%[row])", "16", "17", "18", "19") OCTET_ROW(     \
                      MUL, BYTES "(%[a3],%[row],2)", "20", "21", "22", "23") "add %[step], %[b]\n\t"
#define OCTET_START(ADDRESS, S0, S1, S2, S3)                                                          \
  "vpbroadcastd " ADDRESS ", %%zmm" S0 "\n\tvmovdqa64 %%zmm" S0 ", %%zmm" S1 "\n\tvmovdqa64 %%zmm" S0 \
  ", %%zmm" S2 "\n\tvmovdqa64 %%zmm" S0 ", %%zmm" S3 "\n\t"
#define OCTET_STORE(S0, S1, S2, S3)                                                            \
  "vmovdqu64 %%zmm" S0 ", (%[out])\n\tvmovdqu64 %%zmm" S1 ", 64(%[out])\n\tvmovdqu64 %%zmm" S2 \
  ", 128(%[out])\n\tvmovdqu64 %%zmm" S3 ", 192(%[out])\n\tadd %[out_row], %[out]\n\t"
// All kinds of tile begin with this: the sums of `fours` times four groups and `rest` more in zmm0...23, row
// by row. Operands are named as in tile(). note: four groups a turn, for Intel's processors run the loop's
// own additions on the ports that multiply: 2 to 4 % of f32's products (Granite Rapids).
#define OCTET_SUMS_6X4(BEGIN, MUL) \
  BEGIN                            \
  "test %[fours], %[fours]\n\t"                                                                        \
  "jz 2f\n\t"                                                                                          \
  ".p2align 5\n"                                                                                       \
  "1:\n\t"                                                                                             \
  OCTET_STEP(MUL, "0") OCTET_STEP(MUL, "4") OCTET_STEP(MUL, "8") OCTET_STEP(MUL, "12")                 \
  "add $16, %[a]\n\t"                                                                                  \
  "add $16, %[a3]\n\t"                                                                                 \
  "dec %[fours]\n\t"                                                                                   \
  "jnz 1b\n"                                                                                           \
  "2:\n\t"                                                                                             \
  "mov %[rest], %[fours]\n\t"                                                                          \
  "test %[fours], %[fours]\n\t"                                                                        \
  "jz 4f\n"                                                                                            \
  "3:\n\t"                                                                                             \
  OCTET_STEP(MUL, "0")                                                                                 \
  "add $4, %[a]\n\t"                                                                                   \
  "add $4, %[a3]\n\t"                                                                                  \
  "dec %[fours]\n\t"                                                                                   \
  "jnz 3b\n"                                                                                           \
  "4:\n\t"
// What they begin from: a number for each row, or none.
// clang-format off
#define OCTET_FROM_START                                                                               \
  OCTET_START("(%[start])", "0", "1", "2", "3") OCTET_START("4(%[start])", "4", "5", "6", "7")         \
  OCTET_START("8(%[start])", "8", "9", "10", "11") OCTET_START("12(%[start])", "12", "13", "14", "15") \
  OCTET_START("16(%[start])", "16", "17", "18", "19") OCTET_START("20(%[start])", "20", "21", "22", "23")
#define OCTET_NONE(SUM) "vpxord %%zmm" SUM ", %%zmm" SUM ", %%zmm" SUM "\n\t"
#define OCTET_NONE_4(S0, S1, S2, S3) OCTET_NONE(S0) OCTET_NONE(S1) OCTET_NONE(S2) OCTET_NONE(S3)
#define OCTET_FROM_NONE                                                                                \
  OCTET_NONE_4("0", "1", "2", "3") OCTET_NONE_4("4", "5", "6", "7") OCTET_NONE_4("8", "9", "10", "11") \
  OCTET_NONE_4("12", "13", "14", "15") OCTET_NONE_4("16", "17", "18", "19") OCTET_NONE_4("20", "21", "22", "23")
// clang-format on
#define OCTET_VECTORS                                                                                      \
  "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21",   \
      "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28"

// note: a tile's place comes in registers. In a Tile that is copied for each it goes through memory, by
// vectors from which no member is forwarded, and the tile waits for all before it to end: 10 to 40 cycles
// (Zen 4).
#define OCTET_TILE_6X4(NAME, MUL)                                                                         \
  __attribute__((noinline)) void NAME(const Tile& t, const std::byte* b, std::byte* out) {                \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row;                                                    \
    std::int64_t fours = t.steps / kFour;                                                                 \
    const std::int64_t rest = t.steps % kFour;                                                            \
    asm volatile(OCTET_SUMS_6X4(OCTET_FROM_START, MUL) OCTET_STORE("0", "1", "2", "3")                    \
                     OCTET_STORE("4", "5", "6", "7") OCTET_STORE("8", "9", "10", "11")                    \
                         OCTET_STORE("12", "13", "14", "15") OCTET_STORE("16", "17", "18", "19")          \
                             OCTET_STORE("20", "21", "22", "23")                                          \
                 : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [fours] "+r"(fours), [out] "+r"(out)          \
                 : [row] "r"(t.a_row), [column] "r"(t.b_column), [column3] "r"(3 * t.b_column),           \
                   [step] "r"(t.b_step), [out_row] "r"(t.out_row), [start] "r"(t.start), [rest] "m"(rest) \
                 : OCTET_VECTORS);                                                                        \
  }

// One row's sums of P V into the row's outputs, or in place of them; NUMBER(sum) makes it a float.
#define OCTET_FROM_INTEGER(SUM) "vcvtdq2ps %%zmm" SUM ", %%zmm" SUM "\n\t"
#define OCTET_AS_IT_IS(SUM)
#define OCTET_TIMES_FACTOR(ROW, SUM) "vmulps 4*" ROW "(%[factor])%{1to16%}, %%zmm" SUM ", %%zmm" SUM "\n\t"
#define OCTET_STORE_OUT(OFFSET, SUM) "vmovups %%zmm" SUM ", " OFFSET "(%[out])\n\t"
#define OCTET_FOLD_COLUMN(NUMBER, OFFSET, ROW, SUM) \
  NUMBER(SUM)                                       \
  OCTET_TIMES_FACTOR(ROW, SUM)                      \
  "vfmadd231ps " OFFSET "(%[out]), %%zmm28, %%zmm" SUM "\n\t" OCTET_STORE_OUT(OFFSET, SUM)
#define OCTET_FOLD(NUMBER, ROW, S0, S1, S2, S3)                                           \
  "vbroadcastss 4*" ROW "(%[decay]), %%zmm28\n\t" OCTET_FOLD_COLUMN(NUMBER, "0", ROW, S0) \
      OCTET_FOLD_COLUMN(NUMBER, "64", ROW, S1) OCTET_FOLD_COLUMN(NUMBER, "128", ROW, S2)  \
          OCTET_FOLD_COLUMN(NUMBER, "192", ROW, S3) "add %[out_row], %[out]\n\t"
#define OCTET_SET_COLUMN(NUMBER, OFFSET, ROW, SUM) \
  NUMBER(SUM)                                      \
  OCTET_TIMES_FACTOR(ROW, SUM) OCTET_STORE_OUT(OFFSET, SUM)
#define OCTET_SET(NUMBER, ROW, S0, S1, S2, S3) \
  OCTET_SET_COLUMN(NUMBER, "0", ROW, S0)       \
  OCTET_SET_COLUMN(NUMBER, "64", ROW, S1)      \
  OCTET_SET_COLUMN(NUMBER, "128", ROW, S2)     \
  OCTET_SET_COLUMN(NUMBER, "192", ROW, S3) "add %[out_row], %[out]\n\t"

#define OCTET_TILE_TO_OUT(NAME, END, MUL, NUMBER)                                                            \
  __attribute__((noinline)) void NAME(const Tile& t, const TileFold& f, const std::byte* b,                  \
                                      std::byte* out) {                                                      \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row;                                                       \
    std::int64_t fours = t.steps / kFour;                                                                    \
    const std::int64_t rest = t.steps % kFour;                                                               \
    asm volatile(                                                                                            \
        OCTET_SUMS_6X4(OCTET_FROM_NONE, MUL) END(NUMBER, "0", "0", "1", "2", "3")                            \
            END(NUMBER, "1", "4", "5", "6", "7") END(NUMBER, "2", "8", "9", "10", "11")                      \
                END(NUMBER, "3", "12", "13", "14", "15") END(NUMBER, "4", "16", "17", "18", "19")            \
                    END(NUMBER, "5", "20", "21", "22", "23")                                                 \
        : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [fours] "+r"(fours), [out] "+r"(out)                      \
        : [row] "r"(t.a_row), [column] "r"(t.b_column), [column3] "r"(3 * t.b_column), [step] "r"(t.b_step), \
          [out_row] "r"(f.out_row), [rest] "m"(rest), [decay] "r"(f.decay), [factor] "r"(f.factor)           \
        : OCTET_VECTORS);                                                                                    \
  }

/// A tile that ends in outputs, `b` and `out` being those of its first column.
using TileToOut = void (*)(const Tile&, const TileFold&, const std::byte* b, std::byte* out);
struct TilesToOut {
  TileToOut fold, set;  ///< set: whatever the outputs were
};
#define OCTET_TILES_TO_OUT(NAME, MUL, NUMBER)             \
  OCTET_TILE_TO_OUT(NAME##_fold, OCTET_FOLD, MUL, NUMBER) \
  OCTET_TILE_TO_OUT(NAME##_set, OCTET_SET, MUL, NUMBER)   \
  constexpr TilesToOut NAME{NAME##_fold, NAME##_set};

__m512i broadcast(const std::byte* group) {
  std::int32_t bits;
  __builtin_memcpy(&bits, group, sizeof bits);
  return _mm512_set1_epi32(bits);
}

/// Asks for what lies behind a line of `b`.
inline void ask(const std::byte* b, const Ahead& ahead) {
  if (ahead.first_level != 0) _mm_prefetch(b + ahead.first_level, _MM_HINT_T0);
  if (ahead.second_level != 0) _mm_prefetch(b + ahead.second_level, _MM_HINT_T1);
}

/// Lines of what follows `b` that are fetched with each step, beside those of Tile::ahead.
struct Following {
  int lines = 0;
  Nearness nearness = Nearness::second_level;
};
template <class Op, int kSome, int kTileColumns, Following kFollowing = Following{}>
__attribute__((noinline)) void narrow(const Tile& t) {
  __m512i sum[kSome][kTileColumns];
#pragma GCC unroll 8
  for (int r = 0; r < kSome; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kTileColumns; ++c) sum[r][c] = _mm512_set1_epi32(t.start[r]);
  const std::byte *a = t.a, *b = t.b, *ahead = b + t.steps * t.b_step;
  const Ahead asked = t.ahead;
  constexpr int kToRead = 0;
  for (std::int64_t s = 0; s < t.steps; ++s, a += 4, b += t.b_step, ahead += kFollowing.lines * kVector) {
#pragma GCC unroll 8
    for (int i = 0; i < kFollowing.lines; ++i)
      __builtin_prefetch(ahead + i * kVector, kToRead, static_cast<int>(kFollowing.nearness));
    __m512i column[kTileColumns];
#pragma GCC unroll 8
    for (int c = 0; c < kTileColumns; ++c) {
      ask(b + c * t.b_column, asked);
      column[c] = _mm512_loadu_si512(b + c * t.b_column);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kSome; ++r) {
      const __m512i group = broadcast(a + r * t.a_row);
#pragma GCC unroll 8
      for (int c = 0; c < kTileColumns; ++c) sum[r][c] = Op::multiply(sum[r][c], group, column[c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kSome; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kTileColumns; ++c)
      _mm512_storeu_si512(t.out + r * t.out_row + c * kVector, sum[r][c]);
}

/// The tile moved on by `columns` columns.
Tile after(Tile t, std::int64_t columns) {
  t.b += columns * t.b_column;
  t.out += columns * kVector;
  return t;
}

template <class Op, int kSome>
void tail(const Tile& t, std::int64_t columns) {
  if (columns == 3) return narrow<Op, kSome, 3>(t);
  if (columns == 2) return narrow<Op, kSome, 2>(t);
  if (columns == 1) return narrow<Op, kSome, 1>(t);
}

/// Of a register tile's rows. whole: a tile whose columns begin at b and out.
template <class Op>
void tile_of(void (*whole)(const Tile&, const std::byte* b, std::byte* out), const Tile& t,
             std::int64_t columns) {
  const std::byte* b = t.b;
  std::byte* out = t.out;
  const std::int64_t tiled = columns / kColumns * kColumns;
  for (std::int64_t c = 0; c < tiled; c += kColumns, b += kColumns * t.b_column, out += kColumns * kVector)
    whole(t, b, out);
  if (tiled == 0)
    tail<Op, kTileRows>(t, columns);  // note: no copy of what was just written, as in for_tiles()
  else if (tiled < columns)
    tail<Op, kTileRows>(after(t, tiled), columns - tiled);
}

/// The tile's rows from `row` on.
Tile from_row(Tile t, std::int64_t row) {
  t.a += row * t.a_row, t.out += row * t.out_row, t.start += row, t.rows -= row;
  return t;
}
// Ends of the tile's rows from `row` on.
inline TileFold from_row(const TileFold& f, std::int64_t row) {
  return {f.decay ? f.decay + row : nullptr, f.factor + row, f.out + row * f.out_row, f.out_row};
}
inline TileWords from_row(const TileWords& w, std::int64_t row) {
  return {w.factor + row, w.scale, w.level, w.out + row * w.out_row, w.out_row};
}
/// Calls tile() for each register tile that has rows, with the tile and the ends from its first row on.
/// note: the first of them as they are. A copy, made by vectors of members that were just written one by one,
/// would wait for these to reach the cache (some 14 cycles on Zen 5).
template <class OfTile, class... Ends>
void for_tiles(const OfTile& tile, const Tile& t, const Ends&... ends) {
  tile(t, ends...);
  if (t.rows > kTileRows) tile(from_row(t, kTileRows), from_row(ends, kTileRows)...);
}

/// The same of whole tiles whose sums are folded; returns how many columns they have.
std::int64_t all_and_fold(const TilesToOut& tiles, const Tile& t, const TileFold& fold,
                          std::int64_t columns) {
  const TileToOut whole = fold.decay ? tiles.fold : tiles.set;
  const std::int64_t tiled = columns / kColumns * kColumns;
  const auto tile = [&](const Tile& of_rows, const TileFold& folded) {
    const std::byte* b = t.b;
    std::byte* out = folded.out;
    for (std::int64_t c = 0; c < tiled; c += kColumns, b += kColumns * t.b_column, out += kColumns * kVector)
      whole(of_rows, folded, b, out);
  };
  for_tiles(tile, t, fold);
  return tiled;
}

template <class Op>
__m512i multiply_at(__m512i sum, const std::byte* group, __m512i b) {
  if constexpr (requires { Op::multiply_at(sum, group, b); })
    return Op::multiply_at(sum, group, b);
  else
    return Op::multiply(sum, broadcast(group), b);
}

/// The sums of one column and all rows.
template <class Op>
inline __attribute__((always_inline)) void column_of_all(const Tile& t, const std::byte* b,
                                                         __m512i (&sum)[kRows]) {
  constexpr int kThree = 3;  // rows that an address reaches from another
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sum[r] = _mm512_set1_epi32(t.start[r]);
  const std::int64_t row = t.a_row;
  const std::byte *a0 = t.a, *a3 = a0 + 3 * row, *a6 = a3 + 3 * row, *a9 = a6 + 3 * row;
  for (std::int64_t s = 0; s < t.steps; ++s, b += t.b_step, a0 += 4, a3 += 4, a6 += 4, a9 += 4) {
    const __m512i groups = _mm512_loadu_si512(b);
#pragma GCC unroll 3
    for (int r = 0; r < kThree; ++r) {
      sum[r] = multiply_at<Op>(sum[r], a0 + r * row, groups);
      sum[r + 3] = multiply_at<Op>(sum[r + 3], a3 + r * row, groups);
      sum[r + 6] = multiply_at<Op>(sum[r + 6], a6 + r * row, groups);
      sum[r + 9] = multiply_at<Op>(sum[r + 9], a9 + r * row, groups);
    }
  }
}
template <class Op>
__attribute__((noinline)) void column(const Tile& t, const std::byte* b, std::byte* out) {
  __m512i sum[kRows];
  column_of_all<Op>(t, b, sum);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) _mm512_storeu_si512(out + r * t.out_row, sum[r]);
}

/// Columns of any number, all rows. note: one column beyond the tiles goes with all rows at once, for its
/// sums wait for each other: those of 6 rows take 8 cycles for 12 products.
template <class Op>
void all(void (*whole)(const Tile&, const std::byte* b, std::byte* out), const Tile& t,
         std::int64_t columns) {
  const bool one_left = columns % kColumns == 1 && t.rows > kTileRows;
  const std::int64_t tiled = one_left ? columns - 1 : columns;
  if (tiled > 0) for_tiles([&](const Tile& of_rows) { tile_of<Op>(whole, of_rows, tiled); }, t);
  if (one_left) column<Op>(t, t.b + tiled * t.b_column, t.out + tiled * kVector);
}

// Few rows wait for `b`, which comes from memory where keys are many. They read it line after line in the
// order of its addresses, which the processor fetches ahead by itself; asking for lines of it besides is
// slower (Zen 4).

/// Sums that are made at a time, at least: the instruction takes 4 cycles, and one begins with each.
constexpr int kChains = 4;

/// Q K^T of few rows: one column, whose steps lie one after the other. kSums: of a row, which take steps by
/// turns.
template <class Op, int kSome, int kSums>
__attribute__((noinline)) void few_column(const Tile& t, const std::byte* b, std::byte* out) {
  __m512i sum[kSome][kSums];
#pragma GCC unroll 8
  for (int r = 0; r < kSome; ++r) {
    sum[r][0] = _mm512_set1_epi32(t.start[r]);
#pragma GCC unroll 8
    for (int i = 1; i < kSums; ++i) sum[r][i] = _mm512_setzero_si512();
  }
  const std::byte* a = t.a;
  const Ahead asked = t.ahead;
  std::int64_t s = 0;
  for (; s + kSums <= t.steps; s += kSums, a += 4 * kSums)
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i, b += t.b_step) {
      const __m512i groups = _mm512_loadu_si512(b);
      ask(b, asked);
#pragma GCC unroll 8
      for (int r = 0; r < kSome; ++r) sum[r][i] = multiply_at<Op>(sum[r][i], a + r * t.a_row + 4 * i, groups);
    }
  for (; s < t.steps; ++s, a += 4, b += t.b_step) {
    const __m512i groups = _mm512_loadu_si512(b);
#pragma GCC unroll 8
    for (int r = 0; r < kSome; ++r) sum[r][0] = Op::multiply(sum[r][0], broadcast(a + r * t.a_row), groups);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kSome; ++r) {
    __m512i all = sum[r][0];
#pragma GCC unroll 8
    for (int i = 1; i < kSums; ++i) all = _mm512_add_epi32(all, sum[r][i]);
    _mm512_storeu_si512(out + r * t.out_row, all);
  }
}

template <class Op, int kSome>
void few_qk_rows(const Tile& t, std::int64_t columns) {
  // note: floats are summed in one order, whatever the number of rows. One chain of them keeps up with
  // memory.
  constexpr int kSums = Op::kAnyOrder ? (kChains + kSome - 1) / kSome : 1;
  const std::byte* b = t.b;
  std::byte* out = t.out;
  for (std::int64_t c = 0; c < columns; ++c, b += t.b_column, out += kVector)
    few_column<Op, kSome, kSums>(t, b, out);
}

template <class Op>
void few_qk(const Tile& t, std::int64_t columns) {
  static_assert(kFewRows == 4, "a case for each");
  switch (t.rows) {
    case 1:
      return few_qk_rows<Op, 1>(t, columns);
    case 2:
      return few_qk_rows<Op, 2>(t, columns);
    case 3:
      return few_qk_rows<Op, 3>(t, columns);
    default:
      return few_qk_rows<Op, 4>(t, columns);
  }
}

/// P V of one or two rows: the columns of a step lie one after the other, and eight of two rows are 16 sums.
template <class Op, int kSome, Following kFollowing = Following{}>
void few_pv_rows(Tile t, std::int64_t columns) {
  constexpr int kWide = 8;
  for (; columns >= kWide; columns -= kWide, t = after(t, kWide)) narrow<Op, kSome, kWide, kFollowing>(t);
  if (columns >= kColumns) {
    narrow<Op, kSome, kColumns, Following{kFollowing.lines * kColumns / kWide, kFollowing.nearness}>(t);
    columns -= kColumns, t = after(t, kColumns);
  }
  tail<Op, kSome>(t, columns);
}

/// Three or four rows, two at a time: those after the first two find V in a cache, and fetch half of what
/// comes after it, for memory to have as much to do as with the first; all of it where it goes into the
/// first-level cache (Zen 5: 4 % faster, half of it is as before) and has room there beside V (of f32 and
/// bf16 it has not: 4 to 8 % slower).
template <class Op, int kOthers>
void few_pv_pairs(Tile t, std::int64_t columns) {
  constexpr Following kHalf{4, Nearness::second_level}, kAll{8, Nearness::first_level};
  constexpr std::int64_t kMost = 16 << 10;
  const bool fetches_all = t.ahead.near() && t.steps * t.b_step <= kMost;
  few_pv_rows<Op, 2>(t, columns);
  t.a += 2 * t.a_row, t.out += 2 * t.out_row, t.start += 2, t.ahead = {};
  if (fetches_all)
    few_pv_rows<Op, kOthers, kAll>(t, columns);
  else
    few_pv_rows<Op, kOthers, kHalf>(t, columns);
}

template <class Op>
void few_pv(const Tile& t, std::int64_t columns) {
  static_assert(kFewRows == 4, "a case for each");
  switch (t.rows) {
    case 1:
      return few_pv_rows<Op, 1>(t, columns);
    case 2:
      return few_pv_rows<Op, 2>(t, columns);
    case 3:
      return few_pv_pairs<Op, 1>(t, columns);
    default:
      return few_pv_pairs<Op, 2>(t, columns);
  }
}

}  // namespace
}  // namespace octet::cpu::avx512
