// From the channels' norms to the exponents of equalisation. The same text on the host and on the GPU;
// equalise.h says what is computed.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"
#include "lanes/scalar.h"

namespace octet::quant {

/// Exponents lie in [-64, 0]: a channel 2^-64 below the largest keeps its norm; nothing of it would be left
/// in an f32 sum with the largest.
inline constexpr int kSmallestChannelExponent = -64;

inline constexpr int kSmallestNormalExponent = -126;
inline constexpr int kLargestExponent = 127;  // |x| < 2^(k + 1), and everything below 2^128 is finite

/// In lanes L, for a channel each.
template <class L>
struct ChannelExponents {
  using F32 = typename L::F32;
  using I32 = typename L::I32;
  static constexpr std::int32_t kMantissa = (1 << kF32MantissaBits) - 1;

  /// Of x >= 0.
  static OCTET_HD I32 exponent_of(F32 x) {
    return L::sub_i32(L::sra_i32(L::bits(x), kF32MantissaBits), kF32Bias);
  }
  /// floor(log2 amax), but not below that of the smallest normal number; amax > 0.
  static OCTET_HD I32 of_amax(F32 amax) { return L::max_i32(exponent_of(amax), kSmallestNormalExponent); }

  /// A norm as one integer that orders like it does: its exponent above the 23 bits of its mantissa. root:
  /// the square root of the sum of the scaled squares, a normal number of at least 2^-23, below 2^24: the
  /// exponent lies in [-149, 150]. Of a zero channel, whose root is 0, some number that nobody compares.
  static OCTET_HD I32 norm_order(F32 root, F32 amax) {
    const I32 exponent = L::add_i32(exponent_of(root), of_amax(amax));
    return L::add_i32(L::shl_i32(exponent, kF32MantissaBits), L::bits(root) & kMantissa);
  }

  /// The channel's exponent, where the largest of all has the order `largest`.
  static OCTET_HD I32 exponent(I32 order, I32 largest, F32 amax) {
    // The whole octaves from the largest down to it, rounded down. note: the difference itself may need 33
    // bits.
    const I32 borrow = L::select_i32(L::less_i32(order & kMantissa, largest & kMantissa), 1, 0);
    const I32 octaves = L::sub_i32(
        L::sub_i32(L::sra_i32(order, kF32MantissaBits), L::sra_i32(largest, kF32MantissaBits)), borrow);
    const I32 least = L::max_i32(L::sub_i32(of_amax(amax), kLargestExponent), kSmallestChannelExponent);
    return L::select_i32(L::less(0.0f, amax), L::max_i32(octaves, least), 0);
  }
};

/// What a channel is multiplied by before it is squared: 2^-k.
OCTET_HD float square_factor(float amax) {
  if (amax == 0) return 0;
  // 2^127 and 2^-127 are floats (the latter subnormal, but exact), so this is a plain multiplication.
  const int k = ChannelExponents<ScalarLane>::of_amax(amax);
  return k == kLargestExponent ? 0x1p-127f : power_of_two(-k);
}

/// The same of one channel.
OCTET_HD std::int32_t norm_order(float root, float amax) {
  return ChannelExponents<ScalarLane>::norm_order(root, amax);
}
/// Order: an integer that holds norm_order().
template <class Order>
OCTET_HD std::int32_t channel_exponent(Order order, Order largest, float amax) {
  return ChannelExponents<ScalarLane>::exponent(static_cast<std::int32_t>(order),
                                                static_cast<std::int32_t>(largest), amax);
}

}  // namespace octet::quant
