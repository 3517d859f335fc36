#include "probe/chains.inl"
#include "probe/kernels.h"

namespace octet::probe {

void run_vdpbf16ps_zmm(std::int64_t rounds) {
  // Pairs (1, -1) times (1, 1): sums that stay finite.
  const __m512bh a = (__m512bh)_mm512_set1_epi32(static_cast<int>(0xbf803f80u));
  const __m512bh b = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  run_chains(rounds, _mm512_set1_ps(1.0f), [=](__m512 acc) { return _mm512_dpbf16_ps(acc, a, b); });
}

}  // namespace octet::probe
