// Register tiles of 8 sums a column for any multiply-accumulate of groups; included by one TU a set of flags.
#include <immintrin.h>

#include "cpu/avx2/products.h"

namespace octet::cpu {
namespace {

constexpr int kTileRows = avx2::kRows, kTileColumns = 2, kVector = 32;

__m256i broadcast(const std::byte* group) {
  std::int32_t bits;
  __builtin_memcpy(&bits, group, sizeof bits);
  return _mm256_set1_epi32(bits);
}

/// 12 sums, 2 columns, a broadcast and a product are the 16 registers.
template <class Op, int kR, int kC>
__attribute__((noinline)) void tile(const Tile& t) {
  __m256i sum[kR][kC];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) sum[r][c] = _mm256_set1_epi32(t.start[r]);
  const std::byte *a = t.a, *b = t.b;
  for (std::int64_t s = 0; s < t.steps; ++s, a += 4, b += t.b_step) {
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

template <class Op, int kR>
void multiply(Tile t, std::int64_t columns) {
  for (; columns >= kTileColumns; columns -= kTileColumns) {
    tile<Op, kR, kTileColumns>(t);
    t.b += kTileColumns * t.b_column;
    t.out += kTileColumns * kVector;
  }
  if (columns > 0) tile<Op, kR, 1>(t);
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

template <class Op>
void multiply_few(const Tile& t, std::int64_t columns) {
  with_few_rows(t, [&]<int kR>() { multiply<Op, kR>(t, columns); });
}

}  // namespace
}  // namespace octet::cpu
