// The instruction set amx_int8: AVX-512's lanes with FP16 for the softmax, AMX's tiles for the products of
// codes.
#include "cpu/amx/products.h"
#include "cpu/avx512_fp16/lanes.inl"

namespace octet::cpu {
namespace {

struct IsaAmx : Isa512Fp16 {
  template <class S>
  static constexpr bool kHas = !is_float(S::kQk) && !is_float(S::kP);

  static constexpr std::int64_t kRows = amx::kRows;
  static void begin(std::int64_t dim_groups) { amx::begin(dim_groups); }
  static void end() { amx::end(); }
  // A tile of one row takes as long as one of sixteen: few rows go by vectors, which read K and V as fast as
  // memory lets them.
  static constexpr Products kIntegers{
      Element::s8,
      Element::s8,
      Element::u8_bias,
      Element::s8,
      {amx::multiply_s8_s8, amx::multiply_u8_s8, avx512::multiply_few_s8_s8, avx512::multiply_few_u8_s8},
      avx512::kFewRows,
      nullptr,
      nullptr,
      nullptr,
      Element::u8_bias};
  static constexpr Products kFloats{}, kHalves{};  ///< none
  static constexpr MultiplyToWords kToWords = amx::multiply_s8_s8_to_words;
};
using ThisIsa = IsaAmx;

}  // namespace
}  // namespace octet::cpu
