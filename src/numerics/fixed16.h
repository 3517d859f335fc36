// The 16-bit form of the softmax of `int8`, `int8_shift` and `int4` (numerics/folded_u8.h): scores rounded to
// 2^-7 octave and weights to 2^-15, so that twice as many fit a vector and no multiplication is wider than a
// word. A kernel may take it for a key block whose scores and V scales are in its range, and takes the f32
// form for any other. The error of a weight grows from 1e-7 to 0.6 %, which the scheme's bound counts
// (src/ref/bound_terms.cpp). Measured: docs/cpu-measurements.md.
//
// With t = score in octaves, V's scale in it, and L = log2 of the block's largest V scale:
//   x = round(128 (t - L)) + 2^15, in uint16    z = max x - x    w = round(2^15 2^(-z / 128))
//   code = round(255 w / 2^15)              mass += w r, r = round(2^12 least V scale / V scale)
//
// Weights below 1 of a code are rounded by the places of their keys (numerics/ordered_rounding.h).
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/contract.h"
#include "numerics/exp2.h"
#include "numerics/ordered_rounding.h"

namespace octet::fixed16 {

inline constexpr int kUnitBits = 7;  ///< x in 2^-7 octave: 2^(1/256) is 0.27 % off at most
inline constexpr float kUnits = 1 << kUnitBits;
/// What is added to x, so that a saturating subtraction tells how far a word lies above one of weight 0.
inline constexpr float kWordOffset = 32768;
/// Of f32 so far from 0, in units: of the key's part of x, then of x, before it is rounded to a word.
inline constexpr float kOffsetRounding = 0x1p-10f + 0x1p-9f;
/// |t - L| below this fits uint16 with room for the rounding of its terms, and for the least word: what a row
/// does not see, or is too far below its largest bias, has that one. The largest visible x is above
/// 2^15 - 128 (kReach + 4.1), and kReachOfWeights octaves above the least word, where weights are 0.
inline constexpr float kReach = 221.0f;
inline constexpr int kReachOfWeights = 30;
static_assert(kWordOffset - kUnits * (kReach + 4.1f) > kUnits * kReachOfWeights);
inline constexpr int kMassBits = 12;
/// A block's V scales may differ by this factor: r keeps 8 bits, 0.2 %.
inline constexpr float kScaleRange = 16.0f;
/// Pairs of w r are summed in int32: 2 * 2^15 * 2^12 a pair leaves room for these many.
inline constexpr int kPairsPerSum = 4;
inline constexpr float kWeightOne = 32768.0f;
inline constexpr std::int16_t kLargestCode = 255;
inline constexpr float kCodeOne = kLargestCode;
/// The least weight whose code is not 0, by its key's place; to nearest it is 65. A word's code is 1 from
/// there on, or what is nearest where that is more. 2^15 / 255, the words of a code, is 128.5:
/// rounding_offset() is in words, within their half unit.
constexpr int least_coded(int place) { return 65 - rounding_offset(place); }
static_assert(kOffsetUnits == 128 && kScaleRange <= kOrderedRange, "the place alone tells the threshold");

/// The mantissa 2^16 2^(-fraction / 2^16), at most 65534, of the accurate exponential: within 0.31 %.
struct AccurateMantissa {
  static constexpr std::uint16_t kOne = 65534, kSlope = 43900, kCurve = 11132;

  template <class W>
  static OCTET_HD typename W::U16 of(typename W::U16 fraction) {
    const auto slope = W::sub_u16(kSlope, W::mulhi_u16(kCurve, fraction));
    return W::sub_u16(kOne, W::mulhi_u16(fraction, slope));
  }
};

/// The same of the shift exponential: the chord of 2^x, up to 6.15 % high.
struct LinearMantissa {
  template <class W>
  static OCTET_HD typename W::U16 of(typename W::U16 fraction) {
    return W::sub_u16(65534, W::srl_u16(fraction, 1));
  }
};

/// 2^(-z / 128) * 2^15, at most 32767, to half a unit; 0 from 16 octaves on. W: a lane of words.
template <class Mantissa, class W>
OCTET_HD typename W::U16 weight(typename W::U16 z) {
  const auto mantissa = Mantissa::template of<W>(W::shl_u16(z, 16 - kUnitBits));
  return W::avg_u16(W::srlv_u16(mantissa, W::srl_u16(z, kUnitBits)), 0);
}

}  // namespace octet::fixed16
