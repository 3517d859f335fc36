#include "cpu/avx2/products.h"

#include "cpu/avx2/tiles.inl"

namespace octet::cpu {
namespace {

struct FusedF32 {
  static __m256i multiply(__m256i sum, __m256i a, __m256i b) {
    return _mm256_castps_si256(
        _mm256_fmadd_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), _mm256_castsi256_ps(sum)));
  }
};

// Bytes to words as vpmaddwd wants them.
__m128i bytes_at(const std::byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
struct Signed {
  static __m256i widened(__m128i bytes) { return _mm256_cvtepi8_epi16(bytes); }
};
struct Unsigned {
  static __m256i widened(__m128i bytes) { return _mm256_cvtepu8_epi16(bytes); }
};

constexpr std::int64_t kGroupBytes = 4, kWideGroup = 8, kHalf = 16;
/// Groups of the longer of the two products' sums: a key block of 1024.
constexpr std::int64_t kMostGroups = 256;

/// `a` of a tile in words, row after row.
struct Widened {
  alignas(32) std::byte groups[kTileRows * kMostGroups * kWideGroup];
};
template <class A>
__attribute__((noinline)) void widen(const Tile& t, int rows, Widened& to) {
  for (int r = 0; r < rows; ++r) {
    const std::byte* from = t.a + r * t.a_row;
    std::byte* row = to.groups + r * t.steps * kWideGroup;
    std::int64_t s = 0;
    for (; s + 4 <= t.steps; s += 4)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(row + s * kWideGroup),
                          A::widened(bytes_at(from + s * kGroupBytes)));
    for (; s < t.steps; ++s) {
      std::int32_t group;
      __builtin_memcpy(&group, from + s * kGroupBytes, sizeof group);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(row + s * kWideGroup),
                       _mm256_castsi256_si128(A::widened(_mm_cvtsi32_si128(group))));
    }
  }
}

/// kC columns of 8 sums, `a` widened. A group's four products are two sums of a row until the end: 12 of
/// them, a column's halves, a broadcast and a product are the 16 registers.
template <class B, int kR, int kC, Fetch kFetch = Fetch::nothing>
__attribute__((noinline)) void byte_tile(const Tile& t) {
  static_assert(kR * kC <= 6, "12 sums");
  __m256i sum[kR][kC][2];
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) sum[r][c][0] = sum[r][c][1] = _mm256_setzero_si256();
  const std::byte *a = t.a, *b = t.b;
  for (std::int64_t s = 0; s < t.steps; ++s, a += kWideGroup, b += t.b_step) {
    fetch<kFetch>(t, b);
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) {
      const std::byte* column = b + c * t.b_column;
      const __m256i low = B::widened(bytes_at(column)), high = B::widened(bytes_at(column + kHalf));
#pragma GCC unroll 8
      for (int r = 0; r < kR; ++r) {
        // In assembly, for gcc 12 takes sums to the stack and back in every form of intrinsics that was
        // tried.
        __m256i group, product;
        asm("vpbroadcastq %[at], %[group]\n\t"
            "vpmaddwd %[low], %[group], %[product]\n\t"
            "vpmaddwd %[high], %[group], %[group]\n\t"
            "vpaddd %[product], %[first], %[first]\n\t"
            "vpaddd %[group], %[second], %[second]"
            : [first] "+x"(sum[r][c][0]), [second] "+x"(sum[r][c][1]), [group] "=&x"(group),
              [product] "=&x"(product)
            : [low] "x"(low), [high] "x"(high),
              [at] "m"(*reinterpret_cast<const std::int64_t*>(a + r * t.a_row)));
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kC; ++c) {
      constexpr int kQuartersInOrder = 0xd8;  // 0, 2, 1, 3: the additions work within halves
      const __m256i all =
          _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[r][c][0], sum[r][c][1]), kQuartersInOrder);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(t.out + r * t.out_row + c * kVector),
                          _mm256_add_epi32(all, _mm256_set1_epi32(t.start[r])));
    }
  }
}

/// kC: columns at a time; kFirst: what the first of them ask for, kRest: the others.
template <class B, int kR, int kC, Fetch kFirst = Fetch::nothing, Fetch kRest = Fetch::nothing>
void multiply_wide(Tile t, std::int64_t columns) {
  const std::int64_t left =
      by_columns<kC>(t, columns, byte_tile<B, kR, kC, kFirst>, byte_tile<B, kR, kC, kRest>);
  if constexpr (kC > 1) multiply_wide<B, kR, 1, kRest, kRest>(t, left);
}

template <class A, class B, int kR, int kC, Fetch kFirst = Fetch::nothing, Fetch kRest = Fetch::nothing>
void multiply_bytes(Tile t, std::int64_t columns) {
  Widened wide;
  widen<A>(t, kR, wide);
  t.a = wide.groups, t.a_row = t.steps * kWideGroup;
  multiply_wide<B, kR, kC, kFirst, kRest>(t, columns);
}

}  // namespace

void avx2::multiply_s8_u8(const Tile& t, std::int64_t columns) {
  multiply_bytes<Signed, Unsigned, kTileRows, 1>(t, columns);
}
void avx2::multiply_u8_s8(const Tile& t, std::int64_t columns) {
  multiply_bytes<Unsigned, Signed, kTileRows, 1>(t, columns);
}
void avx2::multiply_f32(const Tile& t, std::int64_t columns) {
  multiply<FusedF32, kTileRows, kTileColumns>(t, columns);
}
void avx2::multiply_few_s8_u8(const Tile& t, std::int64_t columns) {
  with_few_rows(
      t, [&]<int kR>() { multiply_bytes<Signed, Unsigned, kR, 1, Fetch::ahead, Fetch::ahead>(t, columns); });
}
void avx2::multiply_few_u8_s8(const Tile& t, std::int64_t columns) {
  with_few_rows(t, [&]<int kR>() {
    constexpr int kColumns = kR == 1 ? 4 : kR == 4 ? 1 : 2;  // 8 or 12 sums
    multiply_bytes<Unsigned, Signed, kR, kColumns, Fetch::rows_ahead>(t, columns);
  });
}
void avx2::multiply_few_qk_f32(const Tile& t, std::int64_t columns) { multiply_few_qk<FusedF32>(t, columns); }
void avx2::multiply_few_pv_f32(const Tile& t, std::int64_t columns) { multiply_few_pv<FusedF32>(t, columns); }

}  // namespace octet::cpu
