#include "cpu/amx/products.h"

#include <immintrin.h>

#include <cstring>

#include "base/tile_config.h"

namespace octet::cpu::amx {
namespace {

/// Every tile register is 16 rows of 64 bytes: 16 x 16 sums, 16 rows of `a` 16 groups deep, or 16 groups of a
/// column of `b`.
constexpr int kRowBytes = TileConfig::kRowBytes, kGroups = 16, kColumns = 4;

constexpr TileConfig kConfig;

/// gcc 12's tile loads do not say what they read: stores before this stay before them.
void keep_stores() { asm volatile("" : : : "memory"); }

/// The last groups of the columns, fewer than a tile holds, with zeros below.
struct Rest {
  alignas(64) std::byte column[kColumns][kGroups * kRowBytes];
};
__attribute__((noinline)) void fill(Rest& rest, const std::byte* b, const Tile& t, std::int64_t groups,
                                    std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c) {
    std::byte* to = rest.column[c];
    for (std::int64_t g = 0; g < groups; ++g)
      std::memcpy(to + g * kRowBytes, b + c * t.b_column + g * t.b_step, kRowBytes);
    std::memset(to + groups * kRowBytes, 0, static_cast<std::size_t>((kGroups - groups) * kRowBytes));
  }
}

// Sums in tiles 0...3, `a` in 4, columns of `b` in 6 and 7 in turns: a load runs beside the product before
// it. The numbers of tiles are part of the instructions, hence macros. MULTIPLY(sum, a, b).
#define OCTET_STEP(MULTIPLY, A, A_ROW, B, B_STEP, B_COLUMN) \
  do {                                                      \
    _tile_loadd(4, A, A_ROW);                               \
    _tile_loadd(6, B, B_STEP);                              \
    MULTIPLY(0, 4, 6);                                      \
    if (columns > 1) {                                      \
      _tile_loadd(7, (B) + (B_COLUMN), B_STEP);             \
      MULTIPLY(1, 4, 7);                                    \
    }                                                       \
    if (columns > 2) {                                      \
      _tile_loadd(6, (B) + 2 * (B_COLUMN), B_STEP);         \
      MULTIPLY(2, 4, 6);                                    \
    }                                                       \
    if (columns > 3) {                                      \
      _tile_loadd(7, (B) + 3 * (B_COLUMN), B_STEP);         \
      MULTIPLY(3, 4, 7);                                    \
    }                                                       \
  } while (false)

#define OCTET_TILE_16X4(NAME, MULTIPLY)                                                               \
  __attribute__((noinline)) void NAME(const Tile& t, std::int64_t columns) {                          \
    const std::byte *a = t.a, *b = t.b;                                                               \
    std::int64_t steps = t.steps;                                                                     \
    _tile_zero(0);                                                                                    \
    _tile_zero(1);                                                                                    \
    _tile_zero(2);                                                                                    \
    _tile_zero(3);                                                                                    \
    keep_stores();                                                                                    \
    for (; steps >= kGroups; steps -= kGroups, a += kRowBytes, b += kGroups * t.b_step)               \
      OCTET_STEP(MULTIPLY, a, t.a_row, b, t.b_step, t.b_column);                                      \
    if (steps > 0) {                                                                                  \
      Rest rest;                                                                                      \
      fill(rest, b, t, steps, columns);                                                               \
      keep_stores();                                                                                  \
      OCTET_STEP(MULTIPLY, a, t.a_row, rest.column[0], kRowBytes, std::int64_t{sizeof *rest.column}); \
    }                                                                                                 \
    _tile_stored(0, t.out, t.out_row);                                                                \
    if (columns > 1) _tile_stored(1, t.out + kRowBytes, t.out_row);                                   \
    if (columns > 2) _tile_stored(2, t.out + 2 * kRowBytes, t.out_row);                               \
    if (columns > 3) _tile_stored(3, t.out + 3 * kRowBytes, t.out_row);                               \
  }

OCTET_TILE_16X4(tile_s8_s8, _tile_dpbssd)
OCTET_TILE_16X4(tile_u8_s8, _tile_dpbusd)

void all(void (*tile)(const Tile&, std::int64_t), Tile t, std::int64_t columns) {
  for (; columns > 0; columns -= kColumns) {
    tile(t, columns < kColumns ? columns : kColumns);
    t.b += kColumns * t.b_column, t.out += kColumns * kRowBytes;
  }
}

/// Where sums go: row r of column c at at + c * column + r * row.
struct Sums {
  std::byte* at;
  std::int64_t column, row;
};

// Q K^T is one or two products deep, and each waits some 50 cycles for the one before it: columns follow each
// other through the four tiles of sums, and a column is stored while the three after it are made. `a` stays
// in 4 and 5.
#define OCTET_COLUMN(SUM, OLDEST, AT, DEEP)                                  \
  do {                                                                       \
    if ((AT) >= kDelay && (AT)-kDelay < columns)                             \
      _tile_stored(OLDEST, sums.at + ((AT)-kDelay) * sums.column, sums.row); \
    if ((AT) >= columns) break;                                              \
    const std::byte* b = t.b + (AT)*t.b_column;                              \
    _tile_zero(SUM);                                                         \
    _tile_loadd(6, b, t.b_step);                                             \
    _tile_dpbssd(SUM, 4, 6);                                                 \
    if (DEEP) {                                                              \
      _tile_loadd(7, b + kGroups * t.b_step, t.b_step);                      \
      _tile_dpbssd(SUM, 5, 7);                                               \
    }                                                                        \
  } while (false)

#define OCTET_STREAM(NAME, DEEP)                                                               \
  __attribute__((noinline)) void NAME(const Tile& t, const Sums& sums, std::int64_t columns) { \
    constexpr std::int64_t kDelay = kColumns - 1;                                              \
    keep_stores();                                                                             \
    _tile_loadd(4, t.a, t.a_row);                                                              \
    if (DEEP) _tile_loadd(5, t.a + kRowBytes, t.a_row);                                        \
    for (std::int64_t c = 0; c < columns + kDelay; c += kColumns) {                            \
      OCTET_COLUMN(0, 1, c, DEEP);                                                             \
      OCTET_COLUMN(1, 2, c + 1, DEEP);                                                         \
      OCTET_COLUMN(2, 3, c + 2, DEEP);                                                         \
      OCTET_COLUMN(3, 0, c + 3, DEEP);                                                         \
    }                                                                                          \
  }

OCTET_STREAM(stream_64, false)
OCTET_STREAM(stream_128, true)

/// Q K^T: dims of 64 and 128 stream, others go four columns at a time, which leaves a row's columns together.
bool streams(const Tile& t) { return t.steps == kGroups || t.steps == 2 * kGroups; }
void stream(const Tile& t, const Sums& sums, std::int64_t columns) {
  (t.steps == kGroups ? stream_64 : stream_128)(t, sums, columns);
}

/// Four columns of sums as words: see TileWords.
template <bool kScaled>
__attribute__((noinline)) void to_words(const Sums& sums, const TileWords& w) {
  __m512 level[kColumns], scale[kColumns];
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    level[c] = _mm512_loadu_ps(w.level + c * kGroups);
    if constexpr (kScaled) scale[c] = _mm512_loadu_ps(w.scale + c * kGroups);
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
    const __m512 factor = _mm512_set1_ps(w.factor[r]);
    __m512i units[kColumns];
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) {
      __m512 x = _mm512_cvtepi32_ps(_mm512_loadu_si512(sums.at + c * sums.column + r * sums.row));
      if constexpr (kScaled) x = _mm512_mul_ps(x, scale[c]);
      units[c] = _mm512_cvtps_epi32(_mm512_fmadd_ps(x, factor, level[c]));
    }
    std::byte* out = w.out + r * w.out_row;
    _mm512_storeu_si512(out, _mm512_packs_epi32(units[0], units[1]));
    _mm512_storeu_si512(out + kRowBytes, _mm512_packs_epi32(units[2], units[3]));
  }
}

}  // namespace

void begin() { _tile_loadconfig(&kConfig); }
void end() { _tile_release(); }

void multiply_s8_s8(const Tile& t, std::int64_t columns) {
  if (streams(t))
    stream(t, {t.out, kRowBytes, t.out_row}, columns);
  else
    all(tile_s8_s8, t, columns);
}
void multiply_u8_s8(const Tile& t, std::int64_t columns) { all(tile_u8_s8, t, columns); }

std::int64_t multiply_s8_s8_to_words(const Tile& tile, const TileWords& words, std::int64_t seen) {
  const std::int64_t columns = seen + seen % 2;
  // 16 KiB of sums at a time: they stay in L1 until they are words. Each column by itself: rows far apart are
  // stored at half the speed.
  const std::int64_t most = streams(tile) ? 16 : kColumns;
  constexpr std::int64_t kKeys = kColumns * kGroups;
  Tile t = tile;
  TileWords w = words;
  const std::int64_t whole = columns / kColumns * kColumns;
  for (std::int64_t done = 0; done < whole; done += most) {
    const std::int64_t some = whole - done < most ? whole - done : most;
    Sums sums{t.out, kRows * kRowBytes, kRowBytes};
    if (streams(t)) {
      stream(t, sums, some);
    } else {
      t.out_row = kColumns * kRowBytes;
      sums = {t.out, kRowBytes, t.out_row};
      tile_s8_s8(t, some);
    }
    t.b += some * t.b_column;
    for (std::int64_t c = 0; c < some; c += kColumns) {
      (w.scale ? to_words<true> : to_words<false>)(sums, w);
      sums.at += kColumns * sums.column;
      w.level += kKeys, w.out += 2 * kKeys;
      if (w.scale) w.scale += kKeys;
    }
  }
  return whole;
}

}  // namespace octet::cpu::amx
