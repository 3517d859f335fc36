#include "cpu/amx/products.h"

#include <immintrin.h>

#include "base/tile_config.h"

namespace octet::cpu::amx {
namespace {

// Tiles 0...3 hold 16 x 16 sums, 4 and 5 rows of `a` 16 groups deep, 6 and 7 as many groups of a column of
// `b`; 5 and 7 are as deep as the last groups of Q and K where these fill no tile (begin()). The numbers of
// tiles are part of the instructions, hence the macros. A product takes 16 cycles, and its sums are there
// after 52.
constexpr std::int64_t kRowBytes = TileConfig::kRowBytes, kTileBytes = kRows * kRowBytes;
constexpr std::int64_t kGroups = 16, kSums = 4;

/// gcc 12's tile loads do not say what they read: stores before this stay before them.
void keep_stores() { asm volatile("" : : : "memory"); }

/// The last groups of keys, fewer than a tile holds, with zeros behind: codes of P there may be anything. So
/// may be what lies behind V in memory, which is no number where it is of floats.
struct LastKeys {
  alignas(64) std::byte a[kTileBytes], b[kSums * kTileBytes];
};
void fill_a(LastKeys& last, const std::byte* a, const Tile& t, std::int64_t groups) {
  const auto there = static_cast<__mmask16>((1u << groups) - 1);
  for (std::int64_t r = 0; r < kRows; ++r)
    _mm512_store_si512(last.a + r * kRowBytes, _mm512_maskz_loadu_epi32(there, a + r * t.a_row));
}
void fill_b(LastKeys& last, const std::byte* b, const Tile& t, std::int64_t groups, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t g = 0; g < kGroups; ++g)
      _mm512_store_si512(
          last.b + c * kTileBytes + g * kRowBytes,
          g < groups ? _mm512_loadu_si512(b + c * t.b_column + g * t.b_step) : _mm512_setzero_si512());
}

/// Asks for what lies behind `bytes` of b.
void ask(const std::byte* b, std::int64_t bytes, const Ahead& ahead) {
  for (std::int64_t at = 0; ahead.first_level != 0 && at < bytes; at += kRowBytes)
    _mm_prefetch(b + ahead.first_level + at, _MM_HINT_T0);
  for (std::int64_t at = 0; ahead.second_level != 0 && at < bytes; at += kRowBytes)
    _mm_prefetch(b + ahead.second_level + at, _MM_HINT_T1);
}

#define OCTET_PV_PRODUCT(MULTIPLY, SUM, AT, STEP) \
  do {                                            \
    _tile_loadd(6, AT, STEP);                     \
    MULTIPLY(SUM, 4, 6);                          \
  } while (false)
#define OCTET_PV_STEP(MULTIPLY, A, A_ROW, B, B_STEP, B_COLUMN)                    \
  do {                                                                            \
    _tile_loadd(4, A, A_ROW);                                                     \
    OCTET_PV_PRODUCT(MULTIPLY, 0, B, B_STEP);                                     \
    if (columns > 1) OCTET_PV_PRODUCT(MULTIPLY, 1, (B) + (B_COLUMN), B_STEP);     \
    if (columns > 2) OCTET_PV_PRODUCT(MULTIPLY, 2, (B) + 2 * (B_COLUMN), B_STEP); \
    if (columns > 3) OCTET_PV_PRODUCT(MULTIPLY, 3, (B) + 3 * (B_COLUMN), B_STEP); \
  } while (false)

// P V of at most four columns.
#define OCTET_SOME_COLUMNS(NAME, MULTIPLY, FLOATS)                                        \
  __attribute__((noinline)) void NAME(const Tile& t, std::int64_t columns) {              \
    const std::byte *a = t.a, *b = t.b;                                                   \
    std::int64_t steps = t.steps;                                                         \
    _tile_zero(0);                                                                        \
    _tile_zero(1);                                                                        \
    _tile_zero(2);                                                                        \
    _tile_zero(3);                                                                        \
    keep_stores();                                                                        \
    for (; steps >= kGroups; steps -= kGroups, a += kRowBytes, b += kGroups * t.b_step) { \
      ask(b, kGroups* t.b_step, t.ahead);                                                 \
      OCTET_PV_STEP(MULTIPLY, a, t.a_row, b, t.b_step, t.b_column);                       \
    }                                                                                     \
    if (steps > 0) {                                                                      \
      LastKeys last;                                                                      \
      fill_a(last, a, t, steps);                                                          \
      if (FLOATS) fill_b(last, b, t, steps, columns);                                     \
      keep_stores();                                                                      \
      if (FLOATS)                                                                         \
        OCTET_PV_STEP(MULTIPLY, last.a, kRowBytes, last.b, kRowBytes, kTileBytes);        \
      else                                                                                \
        OCTET_PV_STEP(MULTIPLY, last.a, kRowBytes, b, t.b_step, t.b_column);              \
    }                                                                                     \
    _tile_stored(0, t.out, t.out_row);                                                    \
    if (columns > 1) _tile_stored(1, t.out + kRowBytes, t.out_row);                       \
    if (columns > 2) _tile_stored(2, t.out + 2 * kRowBytes, t.out_row);                   \
    if (columns > 3) _tile_stored(3, t.out + 3 * kRowBytes, t.out_row);                   \
  }

OCTET_SOME_COLUMNS(some_u8_s8, _tile_dpbusd, false)
OCTET_SOME_COLUMNS(some_bf16, _tile_dpbf16ps, true)

/// The groups of a row of Q, in tiles.
struct Depth {
  std::int64_t whole, rest;
  explicit Depth(const Tile& t) : whole(t.steps / kGroups), rest(t.steps % kGroups) {}

  bool kept() const { return whole + (rest > 0) <= 2; }  ///< in 4 and 5
  void load(const Tile& t) const {
    keep_stores();
    if (kept() && whole > 0) _tile_loadd(4, t.a, t.a_row);
    if (kept() && whole > 1) _tile_loadd(5, t.a + kRowBytes, t.a_row);
    if (rest > 0) _tile_loadd(5, t.a + whole * kRowBytes, t.a_row);
  }
};

// Q K^T is a few products deep, and each waits for the one before it: columns follow each other through the
// four tiles of sums, and a column is stored while the three after it are made.
#define OCTET_QK_PRODUCT(MULTIPLY, SUM, A, B, AT) \
  do {                                            \
    _tile_loadd(B, AT, kRowBytes);                \
    MULTIPLY(SUM, A, B);                          \
  } while (false)
#define OCTET_COLUMN(MULTIPLY, SUM, OLDEST, AT)                                              \
  do {                                                                                       \
    if ((AT) >= kDelay && (AT)-kDelay < columns)                                             \
      _tile_stored(OLDEST, t.out + ((AT)-kDelay) * kRowBytes, t.out_row);                    \
    if ((AT) >= columns) break;                                                              \
    const std::byte* b = t.b + (AT)*t.b_column;                                              \
    ask(b, t.b_column, t.ahead);                                                             \
    _tile_zero(SUM);                                                                         \
    if (depth.kept()) {                                                                      \
      if (depth.whole > 0) OCTET_QK_PRODUCT(MULTIPLY, SUM, 4, 6, b);                         \
      if (depth.whole > 1) OCTET_QK_PRODUCT(MULTIPLY, SUM, 5, 6, b + kTileBytes);            \
    } else {                                                                                 \
      for (std::int64_t i = 0; i < depth.whole; ++i) {                                       \
        _tile_loadd(4, t.a + i * kRowBytes, t.a_row);                                        \
        OCTET_QK_PRODUCT(MULTIPLY, SUM, 4, 6, b + i * kTileBytes);                           \
      }                                                                                      \
    }                                                                                        \
    if (depth.rest > 0) OCTET_QK_PRODUCT(MULTIPLY, SUM, 5, 7, b + depth.whole * kTileBytes); \
  } while (false)

#define OCTET_STREAM(NAME, MULTIPLY)                                         \
  __attribute__((noinline)) void NAME(const Tile& t, std::int64_t columns) { \
    constexpr std::int64_t kDelay = kSums - 1;                               \
    const Depth depth(t);                                                    \
    depth.load(t);                                                           \
    for (std::int64_t c = 0; c < columns + kDelay; c += kSums) {             \
      OCTET_COLUMN(MULTIPLY, 0, 1, c);                                       \
      OCTET_COLUMN(MULTIPLY, 1, 2, c + 1);                                   \
      OCTET_COLUMN(MULTIPLY, 2, 3, c + 2);                                   \
      OCTET_COLUMN(MULTIPLY, 3, 0, c + 3);                                   \
    }                                                                        \
  }

OCTET_STREAM(stream_s8_s8, _tile_dpbssd)
OCTET_STREAM(stream_bf16, _tile_dpbf16ps)

void all_some(void (*some)(const Tile&, std::int64_t), Tile t, std::int64_t columns) {
  for (; columns > 0; columns -= kSums, t.b += kSums * t.b_column, t.out += kSums * kRowBytes) {
    some(t, columns < kSums ? columns : kSums);
    t.ahead = {};  // all columns lie beside each other
  }
}

/// Sums of P V on their way into outputs.
struct FoldSums {
  alignas(64) std::byte rows[kRows][kSums * kRowBytes];
};

/// TileFold of at most four columns.
template <bool kFloats, bool kSets>
__attribute__((noinline)) void fold_rows(const FoldSums& sums, const TileFold& f, std::byte* out,
                                         std::int64_t columns) {
  const TileFold fold = f;  // note: in registers, for what is written is bytes, which might be f's
  for (std::int64_t r = 0; r < kRows; ++r, out += fold.out_row) {
    const __m512 factor = _mm512_set1_ps(fold.factor[r]);
    [[maybe_unused]] __m512 decay;
    if constexpr (!kSets) decay = _mm512_set1_ps(fold.decay[r]);
    const auto column = [&](std::int64_t c) {
      const std::byte* const at = sums.rows[r] + c * kRowBytes;
      const __m512 sum = kFloats ? _mm512_load_ps(at) : _mm512_cvtepi32_ps(_mm512_load_si512(at));
      __m512 x = _mm512_mul_ps(sum, factor);
      if constexpr (!kSets) x = _mm512_fmadd_ps(_mm512_loadu_ps(out + c * kRowBytes), decay, x);
      _mm512_storeu_ps(out + c * kRowBytes, x);
    };
    if (columns == kSums) {
#pragma GCC unroll 4
      for (std::int64_t c = 0; c < kSums; ++c) column(c);
    } else {
      for (std::int64_t c = 0; c < columns; ++c) column(c);
    }
  }
}

template <bool kFloats>
std::int64_t multiply_and_fold(void (*some)(const Tile&, std::int64_t), const Tile& tile,
                               const TileFold& fold, std::int64_t columns) {
  FoldSums sums;
  Tile t = tile;
  t.out = sums.rows[0], t.out_row = sizeof sums.rows[0];
  std::byte* out = fold.out;
  for (std::int64_t left = columns; left > 0;
       left -= kSums, t.b += kSums * t.b_column, out += kSums * kRowBytes) {
    const std::int64_t width = left < kSums ? left : kSums;
    some(t, width);
    (fold.decay ? fold_rows<kFloats, false> : fold_rows<kFloats, true>)(sums, fold, out, width);
  }
  return columns;
}

/// Two columns of sums, row after row each, as words: see TileWords.
template <bool kScaled>
__attribute__((always_inline)) inline void to_words(const std::byte* sums, const TileWords& w,
                                                    std::int64_t pair) {
  // note: in registers, for what is written is bytes, which might be w's.
  const float* const of_rows = w.factor;
  const std::int64_t out_row = w.out_row;
  const float* const level = w.level + pair * 2 * kGroups;
  const __m512 level0 = _mm512_loadu_ps(level), level1 = _mm512_loadu_ps(level + kGroups);
  [[maybe_unused]] __m512 scale0, scale1;
  if constexpr (kScaled) {
    scale0 = _mm512_loadu_ps(w.scale + pair * 2 * kGroups);
    scale1 = _mm512_loadu_ps(w.scale + pair * 2 * kGroups + kGroups);
  }
  std::byte* out = w.out + pair * kRowBytes;
#pragma GCC unroll 16
  for (std::int64_t r = 0; r < kRows; ++r, out += out_row) {
    const __m512 factor = _mm512_set1_ps(of_rows[r]);
    __m512 a = _mm512_cvtepi32_ps(_mm512_load_si512(sums + r * kRowBytes)),
           b = _mm512_cvtepi32_ps(_mm512_load_si512(sums + kTileBytes + r * kRowBytes));
    if constexpr (kScaled) a = _mm512_mul_ps(a, scale0), b = _mm512_mul_ps(b, scale1);
    _mm512_storeu_si512(out, _mm512_packus_epi32(_mm512_cvtps_epi32(_mm512_fmadd_ps(a, factor, level0)),
                                                 _mm512_cvtps_epi32(_mm512_fmadd_ps(b, factor, level1))));
  }
}

/// The sums of two pairs of columns.
struct PairSums {
  alignas(64) std::byte pair[2][2 * kTileBytes];
};

// Q K^T that ends in words goes by pairs of columns, through a place for two: while a pair is multiplied, the
// one before it is stored, and the one before that becomes words. 4 KiB of sums stay in L1, which all sums of
// a key block, K, V, words and codes of P do not.
#define OCTET_FIRST(SUM, B) OCTET_QK_PRODUCT(_tile_dpbssd, SUM, 4, 6, B)
#define OCTET_LAST(SUM, B) OCTET_QK_PRODUCT(_tile_dpbssd, SUM, 5, 7, B)
#define OCTET_BOTH(SUM, B)             \
  do {                                 \
    OCTET_FIRST(SUM, B);               \
    OCTET_LAST(SUM, (B) + kTileBytes); \
  } while (false)
#define OCTET_PAIR(AT, SUM0, SUM1, BEFORE0, BEFORE1, BEFORE, PRODUCTS)   \
  do {                                                                   \
    if ((AT) < pairs) {                                                  \
      const std::byte* const b = t.b + 2 * (AT)*t.b_column;              \
      _tile_zero(SUM0);                                                  \
      PRODUCTS(SUM0, b);                                                 \
      _tile_zero(SUM1);                                                  \
      PRODUCTS(SUM1, b + t.b_column);                                    \
    }                                                                    \
    if ((AT) > 0 && (AT) <= pairs) {                                     \
      _tile_stored(BEFORE0, sums.pair[BEFORE], kRowBytes);               \
      _tile_stored(BEFORE1, sums.pair[BEFORE] + kTileBytes, kRowBytes);  \
    }                                                                    \
    if ((AT) > 1) to_words<kScaled>(sums.pair[1 - (BEFORE)], w, (AT)-2); \
  } while (false)
#define OCTET_STREAM_TO_WORDS(NAME, PRODUCTS)                                                  \
  template <bool kScaled>                                                                      \
  __attribute__((noinline)) void NAME(const Tile& t, const TileWords& w, std::int64_t pairs) { \
    PairSums sums;                                                                             \
    for (std::int64_t at = 0; at < pairs + 2; at += 2) {                                       \
      OCTET_PAIR(at, 0, 1, 2, 3, 1, PRODUCTS);                                                 \
      if (at + 1 < pairs + 2) OCTET_PAIR(at + 1, 2, 3, 0, 1, 0, PRODUCTS);                     \
    }                                                                                          \
  }

OCTET_STREAM_TO_WORDS(words_of_first, OCTET_FIRST)  // a row is in tile 4
OCTET_STREAM_TO_WORDS(words_of_last, OCTET_LAST)    // in 5
OCTET_STREAM_TO_WORDS(words_of_both, OCTET_BOTH)

template <bool kScaled>
void all_to_words(const Tile& t, const TileWords& words, std::int64_t pairs) {
  const Depth depth(t);
  depth.load(t);
  const bool both = depth.whole + (depth.rest > 0) > 1;
  (both              ? words_of_both<kScaled>
   : depth.whole > 0 ? words_of_first<kScaled>
                     : words_of_last<kScaled>)(t, words, pairs);
}

}  // namespace

void begin(std::int64_t dim_groups) {
  TileConfig config;
  if (const std::int64_t rest = dim_groups % kGroups; rest > 0) {
    config.row_bytes[5] = static_cast<std::uint16_t>(4 * rest);
    config.rows[7] = static_cast<std::uint8_t>(rest);
  }
  asm volatile("" : : "r"(&config) : "memory");  // gcc 12 takes the instruction to read eight bytes
  _tile_loadconfig(&config);
}
void end() { _tile_release(); }

void multiply_s8_s8(const Tile& t, std::int64_t columns) { stream_s8_s8(t, columns); }
void multiply_u8_s8(const Tile& t, std::int64_t columns) { all_some(some_u8_s8, t, columns); }
void multiply_qk_bf16(const Tile& t, std::int64_t columns) { stream_bf16(t, columns); }
void multiply_pv_bf16(const Tile& t, std::int64_t columns) { all_some(some_bf16, t, columns); }
std::int64_t multiply_u8_s8_and_fold(const Tile& t, const TileFold& fold, std::int64_t columns) {
  return multiply_and_fold<false>(some_u8_s8, t, fold, columns);
}
std::int64_t multiply_bf16_and_fold(const Tile& t, const TileFold& fold, std::int64_t columns) {
  return multiply_and_fold<true>(some_bf16, t, fold, columns);
}
std::int64_t multiply_s8_s8_to_words(const Tile& t, const TileWords& words, std::int64_t columns) {
  if (!Depth(t).kept()) return 0;
  const std::int64_t pairs = (columns + 1) / 2;
  (words.scale ? all_to_words<true> : all_to_words<false>)(t, words, pairs);
  return 2 * pairs;
}

}  // namespace octet::cpu::amx
