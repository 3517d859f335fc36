// The products of AVX-512 with VNNI.
#include "cpu/avx512/products.h"

#include <algorithm>

#include "cpu/avx512/fours_outputs.inl"
#include "cpu/avx512/fours_scores.inl"
#include "cpu/avx512/table_codes.inl"
#include "cpu/avx512/tiles.inl"
#include "cpu/avx512/tiles_words.inl"

namespace octet::cpu::avx512 {
namespace {

// b is the unsigned side: K against q.
#define OCTET_UNSIGNED_B(COLUMN, SUM) "vpdpbusd %%zmm28, %%zmm" COLUMN ", %%zmm" SUM "\n\t"
// a is the unsigned side: P against V.
#define OCTET_UNSIGNED_A(COLUMN, SUM) "vpdpbusd %%zmm" COLUMN ", %%zmm28, %%zmm" SUM "\n\t"
#define OCTET_FMA(COLUMN, SUM) "vfmadd231ps %%zmm" COLUMN ", %%zmm28, %%zmm" SUM "\n\t"

OCTET_TILE_6X4(tile_s8_u8, OCTET_UNSIGNED_B)
OCTET_TILE_6X4(tile_u8_s8, OCTET_UNSIGNED_A)
OCTET_TILE_6X4(tile_f32, OCTET_FMA)

OCTET_TILES_TO_OUT(tile_u8_s8_and_fold, OCTET_UNSIGNED_A, OCTET_FROM_INTEGER)
OCTET_TILES_TO_OUT(tile_f32_and_fold, OCTET_FMA, OCTET_AS_IT_IS)

/// How a group of `a` in every lane meets a column of `b`.
struct UnsignedB {
  static constexpr bool kAnyOrder = true;  ///< of steps, for the same sum
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, b, a); }
  /// `a`: the group. gcc 12 knows the instruction with a broadcast of its own alone.
  static __m512i multiply_at(__m512i sum, const std::byte* a, __m512i b) {
    asm("vpdpbusd %1%{1to16%}, %2, %0" : "+v"(sum) : "m"(*reinterpret_cast<const std::int32_t*>(a)), "v"(b));
    return sum;
  }
};
/// `b` of signed codes, which become code + 128 as they are read.
struct ShiftedB {
  static constexpr bool kAnyOrder = true;
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) {
    return UnsignedB::multiply(sum, a, _mm512_xor_si512(b, _mm512_set1_epi8(-128)));
  }
};
struct UnsignedA {
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
};
struct FusedF32 {
  static constexpr bool kAnyOrder = false;
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) {
    return _mm512_castps_si512(
        _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), _mm512_castsi512_ps(sum)));
  }
};

constexpr std::int64_t kPair = 2;  ///< columns that become words or scores together

/// One column of all rows as words, and the least words beside them.
template <bool kScaled>
__attribute__((noinline)) void column_to_words(const Tile& t, const TileWords& w, std::int64_t column) {
  constexpr std::int64_t kKeys = kVector / 4, kHalf = kVector / 2;
  __m512i sum[kRows];
  column_of_all<UnsignedB>(t, t.b + column * t.b_column, sum);
  const __m512 level = _mm512_loadu_ps(w.level + column * kKeys);
  const __m512i least = _mm512_setzero_si512();
  std::byte* out = w.out + column * kHalf;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r, out += w.out_row) {
    __m512 x = _mm512_cvtepi32_ps(sum[r]);
    if constexpr (kScaled) x = _mm512_mul_ps(x, _mm512_loadu_ps(w.scale + column * kKeys));
    const __m512i units = _mm512_cvtps_epi32(_mm512_fmadd_ps(x, _mm512_set1_ps(w.factor[r]), level));
    _mm512_storeu_si512(out, _mm512_packus_epi32(units, least));
  }
}

}  // namespace

void multiply_s8_u8(const Tile& t, std::int64_t columns) { all<UnsignedB>(tile_s8_u8, t, columns); }
std::int64_t multiply_s8_u8_to_words(const Tile& t, const TileWords& words, std::int64_t columns) {
  const std::int64_t odd = columns % kPair;
  const bool apart = odd > 0 && t.rows > kTileRows;
  const std::int64_t pairs = apart ? columns / kPair : (columns + odd) / kPair;
  if (pairs == 0 || t.steps < kWovenSteps) return 0;
  const WordTiles& tiles = words.scale ? tiles_to_scaled_words : tiles_to_words;
  const TileEnds ends{words.factor, words.scale, words.level, words.out, words.out_row};
  (t.rows > kTileRows ? tiles.halves : tiles.six)(t, ends, pairs);
  if (apart) (words.scale ? column_to_words<true> : column_to_words<false>)(t, words, columns - 1);
  return columns + odd;
}
std::int64_t multiply_s8_u8_to_scores(const Tile& t, const TileScores& scores, std::int64_t columns) {
  const std::int64_t pairs = columns / kPair;
  if (pairs == 0 || t.steps < kWovenSteps) return 0;
  const TileEnds ends{scores.factor, nullptr, scores.scale, t.out, t.out_row};
  (t.rows > kTileRows ? tiles_to_scores.halves : tiles_to_scores.six)(t, ends, pairs);
  return pairs * kPair;
}
std::int64_t multiply_u8_s8_and_fold(const Tile& t, const TileFold& fold, std::int64_t columns) {
  return all_and_fold(tile_u8_s8_and_fold, t, fold, columns);
}
std::int64_t multiply_f32_and_fold(const Tile& t, const TileFold& fold, std::int64_t columns) {
  return all_and_fold(tile_f32_and_fold, t, fold, columns);
}
void multiply_u8_s8(const Tile& t, std::int64_t columns) { all<UnsignedA>(tile_u8_s8, t, columns); }
void multiply_f32(const Tile& t, std::int64_t columns) { all<FusedF32>(tile_f32, t, columns); }
void multiply_few_s8_u8(const Tile& t, std::int64_t columns) { few_qk<UnsignedB>(t, columns); }
void multiply_few_s8_s8(const Tile& t, std::int64_t columns) { few_qk<ShiftedB>(t, columns); }
void multiply_few_u8_s8(const Tile& t, std::int64_t columns) { few_pv<UnsignedA>(t, columns); }
void multiply_few_qk_f32(const Tile& t, std::int64_t columns) { few_qk<FusedF32>(t, columns); }
void multiply_few_pv_f32(const Tile& t, std::int64_t columns) { few_pv<FusedF32>(t, columns); }

void fours_s8_u8(const Tile& t, std::int64_t columns) { all_fours<UnsignedB>(t, columns); }
void fours_u8_s8(const Tile& t, std::int64_t columns) { all_fours<UnsignedA>(t, columns); }
std::int64_t fours_s8_u8_with_largest(const Tile& t, std::byte* largest, const TileDistances* distances,
                                      std::int64_t columns) {
  static constexpr TileDistances kNone{};
  const std::int64_t quads = columns / kColumns, quad_bytes = kColumns * t.b_column,
                     together = std::max<std::int64_t>(1, kPieceBytes / quad_bytes);
  std::int64_t chunks = distances ? distances->beside(t.steps, columns) : 0;
  if (quads == 0) return 0;
  if (quads <= together) {
    fours_of_scores(t, largest, 0, quads, distances ? *distances : kNone, chunks);
    return quads * kColumns;
  }
  TileDistances beside = distances ? *distances : kNone;
  for (std::int64_t quad = 0; quad < quads; quad += together) {
    const std::int64_t count = std::min(together, quads - quad), done = std::min(count, chunks);
    fours_of_scores(t, largest, quad, count, beside, done);
    beside = beside.after(done), chunks -= done;
  }
  return quads * kColumns;
}
std::int64_t fours_u8_s8_beside(const Tile& t, const TileWeights* weights, std::int64_t columns) {
  return fours_beside(fours_stored, t, weights, columns, stored(t));
}
std::int64_t fours_u8_s8_wide(const Tile& t, const TileWide& wide, const TileWeights* weights,
                              std::int64_t columns) {
  const TilesOfFours& tiles = wide.what == TileWide::What::add ? fours_added : fours_set;
  return fours_beside(tiles, t, weights, columns, {wide.out, wide.factor, 0, wide.out_column, 0});
}

bool looks_up_codes() {
  static const bool has = __builtin_cpu_supports("avx512vbmi");
  return has;
}
std::int32_t look_up_codes(const TableRow& row) {
  // note: no copy of the row, as in for_tiles().
  const std::int64_t whole = row.count / kShuffledKeys * kShuffledKeys, rest = row.count - whole;
  const std::int32_t sum = whole > 0 ? look_up_by_shuffles(row, row.scores, whole, row.p) : 0;
  return rest > 0 ? sum + look_up_some(row, row.scores + whole, rest, row.p + whole) : sum;
}

}  // namespace octet::cpu::avx512
