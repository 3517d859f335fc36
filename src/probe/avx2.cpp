#include "probe/chains.inl"
#include "probe/kernels.h"

namespace octet::probe {

/// The exact product of 8-bit codes on plain AVX2: widened to 16 bits, multiplied and added in pairs, added
/// up.
void run_vpmaddwd_ymm(std::int64_t rounds) {
  const __m256i a = _mm256_set1_epi32(0x00530027), b = _mm256_set1_epi32(0x0011ffd3);
  run_chains(rounds, a, [=](__m256i acc) {
    __m256i product;
    // note: volatile, or the product of constants would be computed once.
    asm volatile("vpmaddwd %2, %1, %0" : "=x"(product) : "x"(a), "x"(b));
    return _mm256_add_epi32(acc, product);
  });
}

void run_fma_f32_ymm(std::int64_t rounds) {
  const __m256 half = _mm256_set1_ps(0.5f), one = _mm256_set1_ps(1.0f);
  run_chains(rounds, one, [=](__m256 acc) { return _mm256_fmadd_ps(acc, half, one); });
}

}  // namespace octet::probe
