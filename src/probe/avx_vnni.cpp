#include "probe/chains.inl"
#include "probe/kernels.h"

namespace octet::probe {

void run_vpdpbusd_ymm(std::int64_t rounds) {
  const __m256i u = _mm256_set1_epi32(0x53a7c211), s = _mm256_set1_epi32(0x27d3590b);
  run_chains(rounds, u, [=](__m256i acc) { return _mm256_dpbusd_avx_epi32(acc, u, s); });
}

}  // namespace octet::probe
