// The products of AVX-512 with VNNI.
#include "cpu/avx512/products.h"

#include "cpu/avx512/tiles.inl"

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

// One row's sums to words; SCALE(column, sum) multiplies by the keys' scales or does nothing. The levels of
// the four columns are in zmm24...27, where their operands were.
#define OCTET_LEVEL(COLUMN, SUM) \
  "vfmadd213ps %%zmm" COLUMN ", %%zmm28, %%zmm" SUM "\n\tvcvtps2dq %%zmm" SUM ", %%zmm" SUM "\n\t"
#define OCTET_TO_WORDS(SCALE, FACTOR, S0, S1, S2, S3)                                                   \
  "vbroadcastss " FACTOR ", %%zmm28\n\tvcvtdq2ps %%zmm" S0 ", %%zmm" S0 "\n\tvcvtdq2ps %%zmm" S1        \
  ", %%zmm" S1 "\n\tvcvtdq2ps %%zmm" S2 ", %%zmm" S2 "\n\tvcvtdq2ps %%zmm" S3 ", %%zmm" S3              \
  "\n\t" SCALE("", S0) SCALE("64", S1) SCALE("128", S2) SCALE("192", S3) OCTET_LEVEL("24", S0)          \
      OCTET_LEVEL("25", S1) OCTET_LEVEL("26", S2)                                                       \
          OCTET_LEVEL("27", S3) "vpackssdw %%zmm" S1 ", %%zmm" S0 ", %%zmm" S0 "\n\tvpackssdw %%zmm" S3 \
                                ", %%zmm" S2 ", %%zmm" S2 "\n\tvmovdqu64 %%zmm" S0                      \
                                ", (%[out])\n\tvmovdqu64 %%zmm" S2                                      \
                                ", 64(%[out])\n\tadd %[out_row], %[out]\n\t"
#define OCTET_NO_SCALE(OFFSET, SUM)
#define OCTET_SCALE(OFFSET, SUM) "vmulps " OFFSET "(%[scale]), %%zmm" SUM ", %%zmm" SUM "\n\t"

#define OCTET_TILE_TO_WORDS_6X4(NAME, MUL, SCALE)                                                              \
  __attribute__((noinline)) void NAME(const Tile& t, const TileWords& w) {                                     \
    const std::byte *a = t.a, *a3 = t.a + 3 * t.a_row, *b = t.b;                                               \
    std::byte* out = w.out;                                                                                    \
    std::int64_t steps = t.steps;                                                                              \
    asm volatile(                                                                                            \
        OCTET_SUMS_6X4(MUL)                                                                                  \
        "vmovups (%[level]), %%zmm24\n\tvmovups 64(%[level]), %%zmm25\n\t"                                  \
        "vmovups 128(%[level]), %%zmm26\n\tvmovups 192(%[level]), %%zmm27\n\t"                              \
        OCTET_TO_WORDS(SCALE, "(%[factor])", "0", "1", "2", "3")                                             \
        OCTET_TO_WORDS(SCALE, "4(%[factor])", "4", "5", "6", "7")                                            \
        OCTET_TO_WORDS(SCALE, "8(%[factor])", "8", "9", "10", "11")                                          \
        OCTET_TO_WORDS(SCALE, "12(%[factor])", "12", "13", "14", "15")                                       \
        OCTET_TO_WORDS(SCALE, "16(%[factor])", "16", "17", "18", "19")                                       \
        OCTET_TO_WORDS(SCALE, "20(%[factor])", "20", "21", "22", "23")                                       \
        : [a] "+r"(a), [a3] "+r"(a3), [b] "+r"(b), [steps] "+r"(steps), [out] "+r"(out)                      \
        : [row] "r"(t.a_row), [column] "r"(t.b_column), [column3] "r"(3 * t.b_column), [step] "r"(t.b_step), \
          [out_row] "r"(w.out_row), [start] "r"(t.start), [level] "r"(w.level), [factor] "r"(w.factor),      \
          [scale] "r"(w.scale)                                                                               \
        : OCTET_VECTORS); \
  }

OCTET_TILE_TO_WORDS_6X4(tile_to_words, OCTET_UNSIGNED_B, OCTET_NO_SCALE)
OCTET_TILE_TO_WORDS_6X4(tile_to_scaled_words, OCTET_UNSIGNED_B, OCTET_SCALE)

/// How a group of `a` in every lane meets a column of `b`.
struct UnsignedB {
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, b, a); }
};
struct UnsignedA {
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(sum, a, b); }
};
struct FusedF32 {
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) {
    return _mm512_castps_si512(
        _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), _mm512_castsi512_ps(sum)));
  }
};

}  // namespace

void multiply_s8_u8(const Tile& t, std::int64_t columns) { all<UnsignedB>(tile_s8_u8, t, columns); }
std::int64_t multiply_s8_u8_to_words(const Tile& tile, const TileWords& words, std::int64_t columns) {
  constexpr std::int64_t kKeys = kColumns * kVector / 4;
  Tile t = tile;
  TileWords w = words;
  std::int64_t done = 0;
  for (; done + kColumns <= columns; done += kColumns, t = after(t, kColumns)) {
    (w.scale ? tile_to_scaled_words : tile_to_words)(t, w);
    w.level += kKeys, w.out += 2 * kKeys;
    if (w.scale) w.scale += kKeys;
  }
  return done;
}
void multiply_u8_s8(const Tile& t, std::int64_t columns) { all<UnsignedA>(tile_u8_s8, t, columns); }
void multiply_f32(const Tile& t, std::int64_t columns) { all<FusedF32>(tile_f32, t, columns); }
void multiply_row_s8_u8(const Tile& t, std::int64_t columns) { row<UnsignedB>(t, columns); }
void multiply_row_u8_s8(const Tile& t, std::int64_t columns) { row<UnsignedA>(t, columns); }
void multiply_row_f32(const Tile& t, std::int64_t columns) { row<FusedF32>(t, columns); }

}  // namespace octet::cpu::avx512
