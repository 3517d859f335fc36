#include "probe/chains.inl"
#include "probe/kernels.h"

namespace octet::probe {

void run_vpdpbusd_zmm(std::int64_t rounds) {
  const __m512i u = _mm512_set1_epi32(0x53a7c211), s = _mm512_set1_epi32(0x27d3590b);
  run_chains(rounds, u, [=](__m512i acc) { return _mm512_dpbusd_epi32(acc, u, s); });
}

}  // namespace octet::probe
