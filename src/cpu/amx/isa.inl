// The instruction set amx_int8: AVX-512's lanes with FP16 and BF16 for the softmax, AMX's tiles for the
// products of codes and of bf16.
#include "cpu/amx/products.h"
#include "cpu/avx512_bf16/halves.inl"
#include "cpu/avx512_fp16/lanes.inl"

namespace octet::cpu {
namespace {

struct IsaAmx : WithHalves<Isa512Fp16> {
  template <class S>
  static constexpr bool kHas = S::kQk == Operand::bf16 || (!is_float(S::kQk) && !is_float(S::kP));

  static constexpr std::int64_t kRows = amx::kRows;
  /// note: tiles read K and V twice as fast as they come from L2: with 96 rows 197 keys take 7 % less, 1,024
  /// keys 1 to 3.
  static constexpr UnitRows kUnitRows{96, 96, 96};
  // A tile's rows some KiB apart share sets of the cache: bf16 with blocks of 256 keys took 7 % longer.
  static constexpr std::int64_t kScoreGap = 64;
  static void begin(std::int64_t dim_groups) { amx::begin(dim_groups); }
  static void end() { amx::end(); }
  /// The tiles' unit sleeps when it has had nothing to do for some 2,000 cycles, and takes some 1,000 to
  /// wake: a product amid each stage of a softmax of so many keys keeps it awake. What it does to tile 0
  /// nobody reads.
  static constexpr std::int64_t kWakefulKeys = 192;
  static void stay_awake() { asm volatile("tdpbssd %%tmm6, %%tmm4, %%tmm0" : : :); }
  // A tile of one row takes as long as one of sixteen: few rows go by vectors, which read K and V as fast as
  // memory lets them. Of bf16, whose sums depend on their order, a row has the bits that it has among others,
  // and memory takes longer than the tiles.
  static constexpr Products kIntegers{
      Element::s8,
      Element::s8,
      Element::u8_bias,
      Element::s8,
      {amx::multiply_s8_s8, amx::multiply_u8_s8, avx512::multiply_few_s8_s8, avx512::multiply_few_u8_s8},
      avx512::kFewRows,
      amx::multiply_u8_s8_and_fold,
      nullptr,
      nullptr,
      Element::u8_bias};
  static constexpr Products kFloats{};  ///< none
  static constexpr Products kHalves{
      Element::bf16,
      Element::bf16,
      Element::bf16,
      Element::bf16,
      {amx::multiply_qk_bf16, amx::multiply_pv_bf16, amx::multiply_qk_bf16, amx::multiply_pv_bf16},
      avx512::kFewRows,
      amx::multiply_bf16_and_fold};
  static constexpr MultiplyToWords kToWords = amx::multiply_s8_s8_to_words;
  static constexpr MultiplyToScores kToScores = nullptr;
};
using ThisIsa = IsaAmx;

}  // namespace
}  // namespace octet::cpu
