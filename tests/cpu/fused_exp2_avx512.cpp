#include "cpu/avx512/exp2.inl"
#include "tests/cpu/fused_exp2.h"

namespace octet::testing {

void fused_exp2_avx512(const float* x, float* y) { _mm512_storeu_ps(y, cpu::exp2_fused(_mm512_loadu_ps(x))); }

}  // namespace octet::testing
