// AVX-512 with BF16: products of pairs of bf16.
#include <immintrin.h>

#include "cpu/avx512/lanes.inl"
#include "cpu/avx512_bf16/halves.inl"
#include "cpu/avx512_bf16/products.h"

namespace octet::cpu {
namespace {

struct Isa512Bf16 : WithHalves<Isa512> {
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
};

}  // namespace
}  // namespace octet::cpu
