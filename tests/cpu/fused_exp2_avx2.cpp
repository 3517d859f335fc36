#include "cpu/avx2/exp2.inl"
#include "tests/cpu/fused_exp2.h"

namespace octet::testing {

void fused_exp2_avx2(const float* x, float* y) { _mm256_storeu_ps(y, cpu::exp2_fused(_mm256_loadu_ps(x))); }

}  // namespace octet::testing
