// Codes of P from a table in registers, by the byte shuffles of VBMI, which not every processor with VNNI
// has.
#pragma once
#include <immintrin.h>

#include "cpu/table_row.h"
#include "numerics/contract.h"

namespace octet::cpu::avx512 {
namespace {

constexpr int kTables = 16;  // of 64 codes
static_assert(TableRow::kEntries == kTables * 64);

/// codes[entry] of 64 entries, the lower seven bits of each and the upper ones: two tables a shuffle, then a
/// choice between two for each bit more.
__attribute__((target("avx512vbmi"), always_inline)) inline __m512i codes_of(const __m512i (&table)[kTables],
                                                                             __m512i lower, __m512i upper) {
  constexpr int kPairs = kTables / 2;
  __m512i some[kPairs];
#pragma GCC unroll 8
  for (int i = 0; i < kPairs; ++i) some[i] = _mm512_permutex2var_epi8(table[2 * i], lower, table[2 * i + 1]);
#pragma GCC unroll 3
  for (int bit = 0; bit < 3; ++bit) {
    const __mmask64 other = _mm512_test_epi8_mask(upper, _mm512_set1_epi8(static_cast<char>(1 << bit)));
#pragma GCC unroll 4
    for (int i = 0; i < kPairs >> (bit + 1); ++i)
      some[i] = _mm512_mask_blend_epi8(other, some[2 * i], some[2 * i + 1]);
  }
  return some[0];
}

/// Entries of two vectors of scores, as words in the order of packs.
inline __m512i entries_of(const TableRow& row, const float* scores) {
  const __m512 origin = _mm512_set1_ps(row.origin), factor = _mm512_set1_ps(row.factor),
               most = _mm512_set1_ps(static_cast<float>(row.last + 1));
  const auto entries = [&](const float* from) {
    const __m512 distance = _mm512_sub_ps(origin, _mm512_loadu_ps(from));
    return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_mul_ps(distance, factor), most));  // NaN: the last
  };
  return _mm512_min_epu16(_mm512_packus_epi32(entries(scores), entries(scores + 16)),
                          _mm512_set1_epi16(static_cast<std::int16_t>(row.last)));
}

/// Of a multiple of kShuffledKeys scores.
constexpr std::int64_t kShuffledKeys = 64;
__attribute__((target("avx512vbmi"))) std::int32_t look_up_by_shuffles(const TableRow& row,
                                                                       const float* scores,
                                                                       std::int64_t count, std::byte* p) {
  constexpr int kLowerBits = 7;
  __m512i table[kTables];
#pragma GCC unroll 16
  for (int i = 0; i < kTables; ++i) table[i] = _mm512_loadu_si512(row.codes + 64 * i);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low = _mm512_set1_epi16((1 << kLowerBits) - 1);
  __m512i sum = _mm512_setzero_si512();
  for (std::int64_t j = 0; j < count; j += kShuffledKeys) {
    const __m512i a = entries_of(row, scores + j), b = entries_of(row, scores + j + 32);
    const __m512i lower = _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low));
    const __m512i upper =
        _mm512_packus_epi16(_mm512_srli_epi16(a, kLowerBits), _mm512_srli_epi16(b, kLowerBits));
    const __m512i codes = codes_of(table, lower, upper);
    sum = _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi8(1));
    _mm512_storeu_si512(p + j, _mm512_permutexvar_epi32(order, codes));
  }
  return _mm512_reduce_add_epi32(sum);
}

/// The same of fewer: those that are not there are beyond the table's end, where codes are 0.
std::int32_t look_up_some(const TableRow& row, const float* scores, std::int64_t count, std::byte* p) {
  alignas(64) float padded[kShuffledKeys];
  alignas(64) std::byte codes[kShuffledKeys];
  constexpr std::int64_t kLanes = 16;
  for (std::int64_t i = 0; i < kShuffledKeys; i += kLanes)
    _mm512_store_ps(padded + i, i < count ? _mm512_loadu_ps(scores + i) : _mm512_set1_ps(kMinusInfinity));
  const std::int32_t sum = look_up_by_shuffles(row, padded, kShuffledKeys, codes);
  _mm512_mask_storeu_epi8(p, (__mmask64{1} << count) - 1, _mm512_load_si512(codes));
  return sum;
}

}  // namespace
}  // namespace octet::cpu::avx512
