#include "cpu/avx2/products.h"

#include "cpu/avx2/tiles.inl"

namespace octet::cpu {
namespace {

struct PairsS16 {
  static __m256i multiply(__m256i sum, __m256i a, __m256i b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
  }
};
struct FusedF32 {
  static __m256i multiply(__m256i sum, __m256i a, __m256i b) {
    return _mm256_castps_si256(
        _mm256_fmadd_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), _mm256_castsi256_ps(sum)));
  }
};

}  // namespace

void avx2::multiply_s16(const Tile& t, std::int64_t columns) { multiply<PairsS16, kTileRows>(t, columns); }
void avx2::multiply_f32(const Tile& t, std::int64_t columns) { multiply<FusedF32, kTileRows>(t, columns); }
void avx2::multiply_row_s16(const Tile& t, std::int64_t columns) { multiply<PairsS16, 1>(t, columns); }
void avx2::multiply_row_f32(const Tile& t, std::int64_t columns) { multiply<FusedF32, 1>(t, columns); }

}  // namespace octet::cpu
