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
  static void begin() { amx::begin(); }
  static void end() { amx::end(); }
  // A tile of one row takes as long as one of sixteen, and either waits for K and V.
  static constexpr Products kIntegers{
      Element::s8,
      Element::s8,
      Element::u8_bias,
      Element::s8,
      {amx::multiply_s8_s8, amx::multiply_u8_s8, amx::multiply_s8_s8, amx::multiply_u8_s8}};
  static constexpr Products kFloats{}, kHalves{};  ///< none
  static constexpr MultiplyToWords kToWords = amx::multiply_s8_s8_to_words;
};
using ThisIsa = IsaAmx;

}  // namespace
}  // namespace octet::cpu
