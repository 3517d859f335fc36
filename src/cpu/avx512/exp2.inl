// 2^x in AVX-512: exp2_poly's polynomial with fused multiply-adds, which round less often, and the set's own
// instructions for what is around it.
#pragma once
#include <immintrin.h>

#include "numerics/exp2.h"

namespace octet::cpu {
namespace {

/// 2^x within kFusedExp2Error (tests/cpu/fused_exp2_test.cpp); else as exp2_poly().
inline __m512 exp2_fused(__m512 x) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m512 least = _mm512_set1_ps(kExp2Least);
  const __mmask16 counts = _mm512_cmp_ps_mask(x, least, _CMP_NLT_UQ);  // NaN does
  // note: the fraction first, which is one operation where the nearest integer is two.
  const __m512 f = _mm512_reduce_ps(x, kNearest), n = _mm512_sub_ps(x, f);
  constexpr float kRest[] = {kExp2Term5, kExp2Term4, kExp2Term3, kExp2Term2, kExp2Term1};
  __m512 q = _mm512_set1_ps(kExp2Term6);
  for (const float term : kRest) q = _mm512_fmadd_ps(q, f, _mm512_set1_ps(term));
  return _mm512_maskz_scalef_ps(counts, _mm512_fmadd_ps(q, f, _mm512_set1_ps(1.0f)), n);
}

}  // namespace
}  // namespace octet::cpu
