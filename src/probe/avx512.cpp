#include "probe/chains.inl"
#include "probe/kernels.h"

namespace octet::probe {

void run_fma_f32_zmm(std::int64_t rounds) {
  const __m512 half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1.0f);
  run_chains(rounds, one, [=](__m512 acc) { return _mm512_fmadd_ps(acc, half, one); });
}

}  // namespace octet::probe
