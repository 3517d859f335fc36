// Register tiles of 8 sums a column for any multiply-accumulate of groups; included by one TU a set of flags.
#include <immintrin.h>

#include "cpu/avx2/products.h"

namespace octet::cpu {
namespace {

constexpr int kTileRows = avx2::kRows, kTileColumns = 2, kVector = 32;
constexpr std::int64_t kLine = 64;

/// What a tile asks memory for beside its products.
enum class Fetch : std::int32_t {
  nothing,
  ahead,       ///< Tile::ahead of `b`, where its columns come one after the other: those of Q K^T
  rows_ahead,  ///< whole steps of `b`, kStepsAhead of them ahead, where its columns lie beside each other: a
               ///< tile of some of them would leave the others to the next ones, each of which waits anew
};
constexpr std::int64_t kStepsAhead = 8;

template <Fetch kFetch>
void fetch(const Tile& t, const std::byte* b) {
  if constexpr (kFetch == Fetch::ahead) {
    if (t.ahead.first_level != 0) _mm_prefetch(b + t.ahead.first_level, _MM_HINT_T0);
    if (t.ahead.second_level != 0) _mm_prefetch(b + t.ahead.second_level, _MM_HINT_T1);
  }
  if constexpr (kFetch == Fetch::rows_ahead)
    for (const std::byte *line = b + kStepsAhead * t.b_step, *end = line + t.b_step; line < end;
         line += kLine)
      _mm_prefetch(line, _MM_HINT_T0);
}

__m256i broadcast(const std::byte* group) {
  std::int32_t bits;
  __builtin_memcpy(&bits, group, sizeof bits);
  return _mm256_set1_epi32(bits);
}

/// 12 sums, 2 columns, a broadcast and a product are the 16 registers.
template <class Op, int kR, int kC, Fetch kFetch = Fetch::nothing>
__attribute__((noinline)) void tile(const Tile& t) {
  __m256i sum[kR][kC];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) sum[r][c] = _mm256_set1_epi32(t.start[r]);
  const std::byte *a = t.a, *b = t.b;
  for (std::int64_t s = 0; s < t.steps; ++s, a += 4, b += t.b_step) {
    fetch<kFetch>(t, b);
    __m256i column[kC];
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c)
      column[c] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + c * t.b_column));
#pragma GCC unroll 8
    for (int r = 0; r < kR; ++r) {
      const __m256i group = broadcast(a + r * t.a_row);
#pragma GCC unroll 8
      for (int c = 0; c < kC; ++c) sum[r][c] = Op::multiply(sum[r][c], group, column[c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.out + r * t.out_row + c * kVector), sum[r][c]);
}

using ColumnsOfTile = void (*)(const Tile&);

/// `first` for the first kC columns and `rest` for as many at a time of the others; returns how many are
/// left, from which on `t` then is.
template <int kC>
std::int64_t by_columns(Tile& t, std::int64_t columns, ColumnsOfTile first, ColumnsOfTile rest) {
  for (ColumnsOfTile next = first; columns >= kC; next = rest) {
    next(t);
    columns -= kC, t.b += kC * t.b_column, t.out += kC * kVector;
  }
  return columns;
}

/// kC: columns at a time; kFirst: what the first of them ask for, kRest: the others.
template <class Op, int kR, int kC, Fetch kFirst = Fetch::nothing, Fetch kRest = Fetch::nothing>
void multiply(Tile t, std::int64_t columns) {
  const std::int64_t left = by_columns<kC>(t, columns, tile<Op, kR, kC, kFirst>, tile<Op, kR, kC, kRest>);
  if constexpr (kC > 1)
    if (left > 0) multiply<Op, kR, kC / 2, kRest, kRest>(t, left);
}

/// body<rows>() for the rows of a tile of few.
template <class Body>
void with_few_rows(const Tile& t, const Body& body) {
  static_assert(avx2::kFewRows == 4, "a case for each");
  switch (t.rows) {
    case 1:
      return body.template operator()<1>();
    case 2:
      return body.template operator()<2>();
    case 3:
      return body.template operator()<3>();
    default:
      return body.template operator()<4>();
  }
}

/// Q K^T of few rows, whose time is that of K: columns one after the other, as they lie in memory.
template <class Op>
void multiply_few_qk(const Tile& t, std::int64_t columns) {
  with_few_rows(t,
                [&]<int kR>() { multiply<Op, kR, kR <= 2 ? 2 : 1, Fetch::ahead, Fetch::ahead>(t, columns); });
}
/// P V of few rows, whose time is that of V: 8 sums, or 12 of three rows.
template <class Op>
void multiply_few_pv(const Tile& t, std::int64_t columns) {
  with_few_rows(t, [&]<int kR>() {
    multiply<Op, kR, kR == 1 ? 8 : kR == 4 ? 2 : 4, Fetch::rows_ahead>(t, columns);
  });
}

}  // namespace
}  // namespace octet::cpu
