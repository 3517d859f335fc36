// AVX-512 with BF16: products of pairs of bf16.
#include <immintrin.h>

#include "cpu/avx512/lanes.inl"
#include "cpu/avx512_bf16/products.h"
#include "cpu/avx512_bf16/weights.inl"

namespace octet::cpu {
namespace {

struct Isa512Bf16 : Isa512 {
  /// Schemes whose products are of such operands; others are the same on avx512_vnni.
  template <class S>
  static constexpr bool kHas = S::kQk == Operand::bf16;
  static constexpr Products kHalves{Element::bf16,
                                    Element::bf16,
                                    Element::bf16,
                                    Element::bf16,
                                    {avx512::multiply_bf16, avx512::multiply_bf16,
                                     avx512::multiply_few_qk_bf16, avx512::multiply_few_pv_bf16},
                                    avx512::kFewRows,
                                    avx512::multiply_bf16_and_fold};
  using Approximate = HalvesSoftmax;
  /// Codes are numbers that bf16 holds.
  static void store_halves(std::byte* at, Lane::F32 codes) {
    const __m512i bits = _mm512_srli_epi32(reinterpret_cast<__m512i>(codes), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), _mm512_cvtepi32_epi16(bits));
  }
};

}  // namespace
}  // namespace octet::cpu
