// 2^x in AVX2: exp2_poly's polynomial with fused multiply-adds, which round less often.
#pragma once
#include <immintrin.h>

#include "numerics/exp2.h"

namespace octet::cpu {
namespace {

/// 2^x within kFusedExp2Error (tests/cpu/fused_exp2_test.cpp), for x < 127; else as exp2_poly().
inline __m256 exp2_fused(__m256 x) {
  // 1.5 * 2^23 + 127: adding it leaves the nearest integer, as an exponent field, in the low bits.
  constexpr float kMagic = 12582912.0f + kF32Bias;
  const __m256 least = _mm256_set1_ps(kExp2Least), magic = _mm256_set1_ps(kMagic);
  const __m256 counts = _mm256_cmp_ps(x, least, _CMP_NLT_UQ);  // NaN does
  const __m256 shifted = _mm256_add_ps(_mm256_max_ps(least, x), magic);
  const __m256 f = _mm256_sub_ps(x, _mm256_sub_ps(shifted, magic));
  constexpr float kRest[] = {kExp2Term5, kExp2Term4, kExp2Term3, kExp2Term2, kExp2Term1, 1.0f};
  __m256 p = _mm256_set1_ps(kExp2Term6);
  for (const float term : kRest) p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(term));
  // note: a product, which keeps a NaN.
  const __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(shifted), kF32MantissaBits));
  return _mm256_and_ps(_mm256_mul_ps(p, power), counts);
}

}  // namespace
}  // namespace octet::cpu
