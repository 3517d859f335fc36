// Codes of rows of the scheme `integer` by way of floats, where these decide them beyond doubt: each output
// times its row's factor lies so near an integer that this is the code, by the bound of
// docs/numerics/integer.md. Integers alone make the rows for which they do not.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/formats.h"
#include "numerics/integer_bins.h"

namespace octet::integer {

/// Where every output times the factor is this close to an integer, that integer is the code.
inline constexpr float kRoughSure = 0.5f - 0x1p-14f;

/// A sum as a float, within 2 * 2^-24: of the halves of its bits the lower one is signed, so that nothing
/// cancels.
template <class L>
OCTET_HD typename L::F32 rough_of(const typename L::I64& total) {
  constexpr float kTwo32 = 4294967296.0f;
  const auto low = L::low_word(total), high = L::sub_i32(L::high_word(total), L::sra_i32(low, 31));
  return L::add(L::mul(L::to_f32(high), kTwo32), L::to_f32(low));
}

/// What outputs of a channel are multiplied by, exactly; NaN where it lies out of the range that this way of
/// a row's end has.
template <class L>
OCTET_HD typename L::F32 rough_channel(const ChannelScales<L>& s) {
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  constexpr std::int32_t kMost = 60, kNan = 0x7fc00000;
  const I32 exponent = L::max_i32(L::min_i32(s.exponent, kMost), -kMost);
  const F32 size = L::max(L::min(s.v, power_of_two(kMost)), power_of_two(-kMost));
  const I32 power = L::shl_i32(L::add_i32(exponent, kF32Bias), kF32MantissaBits), v = L::bits(s.v);
  const I32 factor = L::bits(L::mul(s.v, L::from_bits(power)));
  const I32 of_v = L::select_i32(L::equal_i32(v, 0), factor, kNan);
  const I32 of_size = L::select_i32(L::equal_i32(L::bits(size), v), factor, of_v);
  return L::from_bits(L::select_i32(L::equal_i32(exponent, s.exponent), of_size, kNan));
}

/// The ends of rows, R: a lane of rows.
template <class R>
struct RoughRows {
  using F32 = typename R::F32;
  using I32 = typename R::I32;

  F32 factor;  ///< codes an output
  F32 scale;   ///< the row's
  typename R::Mask sure;

  /// sum: the rows' masses; tops: how many bins the highest of the outputs lies above that of the sum;
  /// out_factor: what outputs lack yet; largest: of the outputs, their channels' factors in them, in size.
  static OCTET_HD RoughRows of(typename R::I64 sum, I32 tops, F32 out_factor, F32 largest) {
    constexpr float kUnit = 128.0f / 255, kLeastCode = 63.75f, kOver = 1 / kLeastCode;
    constexpr float kLeast = power_of_two(-100), kMost = power_of_two(100);
    const auto unit = R::mul(R::div(kUnit, rough_of<R>(sum)), out_factor), most = R::mul(largest, unit);
    const auto not_small = R::less(kLeast, R::min(largest, most));
    const auto not_large = R::less(R::max(largest, most), kMost);
    const auto octave = R::sub_i32(R::sra_i32(R::bits(R::mul(most, kOver)), kF32MantissaBits), kF32Bias);
    const auto exponent = R::add_i32(octave, R::mul_i32(tops, kBinOctaves));
    const auto not_low = R::less_i32(-kF32Bias, exponent), not_high = R::less_i32(exponent, kF32Bias + 1);
    const auto factor = R::mul(unit, power_of(R::sub_i32(0, octave)));
    // The largest code lies in 64...127: from 127.5 on, and below half of that, the scale is another one.
    // 127.5 is as far from integers as kRoughSure does not let pass.
    const auto above = R::less(kLeastCode + (0.5f - kRoughSure), R::mul(largest, factor));
    return {factor, power_of(exponent),
            static_cast<typename R::Mask>(not_small & not_large & not_low & not_high & above)};
  }

 private:
  /// 2^exponent, a normal number.
  static OCTET_HD F32 power_of(I32 exponent) {
    return R::from_bits(R::shl_i32(R::add_i32(exponent, kF32Bias), kF32MantissaBits));
  }
};

}  // namespace octet::integer
