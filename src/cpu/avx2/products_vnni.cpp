// 256-bit VNNI: the encoding of CPUs without AVX-512.
#include "cpu/avx2/products.h"

#include "cpu/avx2/tiles.inl"

namespace octet::cpu {
namespace {

struct UnsignedB {
  static __m256i multiply(__m256i sum, __m256i a, __m256i b) { return _mm256_dpbusd_avx_epi32(sum, b, a); }
};
struct UnsignedA {
  static __m256i multiply(__m256i sum, __m256i a, __m256i b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
};

}  // namespace

void avx_vnni::multiply_s8_u8(const Tile& t, std::int64_t columns) {
  multiply<UnsignedB, kTileRows, kTileColumns>(t, columns);
}
void avx_vnni::multiply_u8_s8(const Tile& t, std::int64_t columns) {
  multiply<UnsignedA, kTileRows, kTileColumns>(t, columns);
}
void avx_vnni::multiply_few_s8_u8(const Tile& t, std::int64_t columns) {
  multiply_few_qk<UnsignedB>(t, columns);
}
void avx_vnni::multiply_few_u8_s8(const Tile& t, std::int64_t columns) {
  multiply_few_pv<UnsignedA>(t, columns);
}

}  // namespace octet::cpu
