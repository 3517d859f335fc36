// A form of schemes on scaled codes whose P are floats against the running maximum, on lanes that wait for
// the exponential (docs/cuda-measurements.md): weights are measured against a reference that is known before
// the key block's scores are, and that follows the row's largest weight from behind. Floats lose nothing by
// that, as long as they stay in their format's range.
#pragma once
#include <cmath>
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "numerics/unbiased.h"

namespace octet {

/// LateScaled<S>, and of a block whose rows all see all its keys and have a reference, instead of its score()
/// to absorb():
///
///   weight[j]  = scheme.tracked_weight(acc[j], key[j], scheme.slope(row), state)
///   p[j]       = scheme.code(weight[j])
///   out[c]    += sum over j of p[j] v[j][c]
///   state.sum += sum over j of scheme.mass(weight[j], _, key[j])
///
/// Of a block where has_left() says so of its p, nothing is added: it goes by score() to absorb(). Else,
/// where is_high() says so, out[c] *= 2^-rise, state.sum *= 2^-rise and state.reference += rise, of the
/// largest p[j].
template <class S>
struct Tracked : LateScaled<S> {
  using F32 = typename S::F32;
  using typename S::Acc, typename S::Key, typename S::Row, typename S::State;
  static_assert(S::kP == Operand::f16, "the range of P is that of f16");

  static OCTET_HD Tracked prepare(const Prepare& p) { return {LateScaled<S>::prepare(p)}; }

  OCTET_HD F32 slope(const Row& row) const { return fmaxf(row.octaves, LateScaled<S>::kLeastSlope); }
  OCTET_HD F32 tracked_weight(Acc acc, const Key& key, F32 slope, const State& state) const {
    return S::weight_at(std::fma(S::number(acc) * key.scale, slope, -state.reference));
  }

  // Bits of P, which are those of f16 above 0: ordered as integers, infinity and what is no number above all.
  static constexpr std::uint32_t kMantissaBits = 10, kOne = 15u << kMantissaBits, kInfinity = 0x7c00;
  /// From 4 on the reference is moved: below, it costs more than it gives, and 2^14 are left for a block that
  /// has larger weights than all before it.
  static constexpr std::uint32_t kHigh = 17u << kMantissaBits;
  /// Of two P, a half of the word each: whether one is high, whether one is out of range.
  static OCTET_HD bool is_high(std::uint32_t two) { return one_is_from(kHigh, two); }
  static OCTET_HD bool has_left(std::uint32_t two) { return one_is_from(kInfinity, two); }
  /// Octaves, a whole number: the largest P becomes 1 to 2.
  static OCTET_HD std::int32_t rise(std::uint32_t p) {
    return p < kOne ? 0 : static_cast<std::int32_t>((p - kOne) >> kMantissaBits);
  }

 private:
  static OCTET_HD bool one_is_from(std::uint32_t least, std::uint32_t two) {
    constexpr std::uint32_t kBoth = 0x00010001, kSigns = 0x8000 * kBoth;
    return ((two + (0x8000 - least) * kBoth) & kSigns) != 0;
  }
};

}  // namespace octet
