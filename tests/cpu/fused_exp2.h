// The sets' own exponentials, each compiled for its set: y[i] = 2^x[i].
#pragma once

namespace octet::testing {

/// Of eight numbers with AVX2 and FMA, of sixteen with AVX-512.
void fused_exp2_avx2(const float* x, float* y);
void fused_exp2_avx512(const float* x, float* y);

}  // namespace octet::testing
