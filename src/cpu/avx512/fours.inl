// Register tiles of 4 rows by 4 columns, of a set whose groups have 16 rows: 16 sums, 4 columns and a
// broadcast leave 11 registers, for what is done beside the products (fours_scores.inl, fours_outputs.inl).
#pragma once
#include "cpu/avx512/tiles.inl"

namespace octet::cpu::avx512 {
namespace {

constexpr int kFourRows = 4, kGroupBytes = 4;

/// What of K or V all rows take before what comes after it, for it to stay in the first-level cache.
constexpr std::int64_t kPieceBytes = 16 << 10;

// Laid out as it runs.
// clang-format off
// One row of a step: the row's group in every lane, times four columns; W goes between.
#define OCTET_FOURS_ROW(MUL, ADDRESS, S0, S1, S2, S3, W) \
  "vpbroadcastd " ADDRESS ", %%zmm20\n\t" MUL("16", S0) MUL("17", S1) W MUL("18", S2) MUL("19", S3)
// A step whose groups lie BYTES behind those of the first; W0...W3 go into its rows.
#define OCTET_FOURS_STEP(MUL, COLUMN1, COLUMN2, COLUMN3, BYTES, W0, W1, W2, W3) \
  "vmovdqu64 (%[b]), %%zmm16\n\tvmovdqu64 " COLUMN1 ", %%zmm17\n\t"             \
  "vmovdqu64 " COLUMN2 ", %%zmm18\n\tvmovdqu64 " COLUMN3 ", %%zmm19\n\t"        \
  OCTET_FOURS_ROW(MUL, BYTES "(%[a])", "0", "1", "2", "3", W0)                  \
  OCTET_FOURS_ROW(MUL, BYTES "(%[a],%[row])", "4", "5", "6", "7", W1)           \
  OCTET_FOURS_ROW(MUL, BYTES "(%[a],%[row],2)", "8", "9", "10", "11", W2)       \
  OCTET_FOURS_ROW(MUL, BYTES "(%[a],%[row3])", "12", "13", "14", "15", W3)
// Of K, which is the unsigned side, and of V, whose columns lie one after the other.
#define OCTET_K_TIMES(COLUMN, SUM) "vpdpbusd %%zmm20, %%zmm" COLUMN ", %%zmm" SUM "\n\t"
#define OCTET_V_TIMES(COLUMN, SUM) "vpdpbusd %%zmm" COLUMN ", %%zmm20, %%zmm" SUM "\n\t"
#define OCTET_K_STEP(...)                                                                                     \
  OCTET_FOURS_STEP(OCTET_K_TIMES, "(%[b],%[column])", "(%[b],%[column],2)", "(%[b],%[column3])", __VA_ARGS__) \
  "add $64, %[b]\n\t"
#define OCTET_V_STEP(...) OCTET_FOURS_STEP(OCTET_V_TIMES, "64(%[b])", "128(%[b])", "192(%[b])", __VA_ARGS__) "add " OCTET_V_ROW ", %[b]\n\t"

#define OCTET_MOVE_ON(BY, FIELD) "mov " BY ", %[from]\n\tadd %[from], " FIELD "\n\t"
// clang-format on

/// One column of all 16 rows. note: its sums wait for each other, those of four rows for twice as long as
/// they take.
template <class Op>
__attribute__((noinline)) void column_of_fours(const Tile& t, const std::byte* b, std::byte* out) {
  __m512i sum[kFoursRows];
#pragma GCC unroll 16
  for (int r = 0; r < kFoursRows; ++r) sum[r] = _mm512_set1_epi32(t.start[r]);
  const std::int64_t row = t.a_row, four = kFourRows * row;
  const std::byte *a0 = t.a, *a4 = a0 + four, *a8 = a4 + four, *a12 = a8 + four;
  for (std::int64_t s = 0; s < t.steps;
       ++s, b += t.b_step, a0 += kGroupBytes, a4 += kGroupBytes, a8 += kGroupBytes, a12 += kGroupBytes) {
    const __m512i groups = _mm512_loadu_si512(b);
#pragma GCC unroll 4
    for (int r = 0; r < kFourRows; ++r) {
      sum[r] = multiply_at<Op>(sum[r], a0 + r * row, groups);
      sum[r + 4] = multiply_at<Op>(sum[r + 4], a4 + r * row, groups);
      sum[r + 8] = multiply_at<Op>(sum[r + 8], a8 + r * row, groups);
      sum[r + 12] = multiply_at<Op>(sum[r + 12], a12 + r * row, groups);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kFoursRows; ++r) _mm512_storeu_si512(out + r * t.out_row, sum[r]);
}

/// Columns of any number, four rows at a time.
template <class Op>
void all_fours(const Tile& t, std::int64_t columns) {
  const bool one_left = columns % kColumns == 1 && t.rows > 2 * kFourRows;
  const std::int64_t apart = one_left ? 1 : 0;
  for (std::int64_t row = 0; row < t.rows; row += kFourRows) {
    Tile of_rows = from_row(t, row);
    for (std::int64_t left = columns - apart; left > 0;
         left -= kColumns, of_rows = after(of_rows, kColumns)) {
      if (left >= kColumns)
        narrow<Op, kFourRows, kColumns>(of_rows);
      else
        tail<Op, kFourRows>(of_rows, left);
    }
  }
  if (one_left) column_of_fours<Op>(t, t.b + (columns - 1) * t.b_column, t.out + (columns - 1) * kVector);
}

}  // namespace
}  // namespace octet::cpu::avx512
