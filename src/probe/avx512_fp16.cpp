#include "probe/chains.inl"
#include "probe/kernels.h"

namespace octet::probe {

void run_fma_f16_zmm(std::int64_t rounds) {
  const __m512h half = _mm512_castsi512_ph(_mm512_set1_epi16(0x3800));  // 0.5
  const __m512h one = _mm512_castsi512_ph(_mm512_set1_epi16(0x3c00));
  run_chains(rounds, one, [=](__m512h acc) { return _mm512_fmadd_ph(acc, half, one); });
}

}  // namespace octet::probe
