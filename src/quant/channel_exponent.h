// From the channels' norms to the exponents of equalisation. The same text on the host and on the GPU;
// equalise.h says what is computed.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet::quant {

/// Exponents lie in [-64, 0]: a channel 2^-64 below the largest keeps its norm; nothing of it would be left
/// in an f32 sum with the largest.
inline constexpr int kSmallestChannelExponent = -64;

inline constexpr int kSmallestNormalExponent = -126;
inline constexpr int kLargestExponent = 127;  // |x| < 2^(k + 1), and everything below 2^128 is finite

OCTET_HD int exponent_field(float x) { return static_cast<int>(bits_of(x) >> kF32MantissaBits); }

/// floor(log2 amax), but not below that of the smallest normal number; amax > 0.
OCTET_HD int amax_exponent(float amax) {
  const int exponent = exponent_field(amax) - kF32Bias;
  return exponent > kSmallestNormalExponent ? exponent : kSmallestNormalExponent;
}

/// What a channel is multiplied by before it is squared: 2^-k.
OCTET_HD float square_factor(float amax) {
  if (amax == 0) return 0;
  // 2^127 and 2^-127 are floats (the latter subnormal, but exact), so this is a plain multiplication.
  const int k = amax_exponent(amax);
  return k == kLargestExponent ? 0x1p-127f : power_of_two(-k);
}

/// A norm as one integer that orders like it does: its exponent above the 23 bits of its mantissa. root: the
/// square root of the sum of the scaled squares, a normal number of at least 2^-23, below 2^24: the exponent
/// lies in [-149, 150]. Of a zero channel, whose root is 0, some number that nobody compares.
OCTET_HD std::int32_t norm_order(float root, float amax) {
  constexpr std::uint32_t kMantissa = (1u << kF32MantissaBits) - 1;
  const std::int32_t exponent = exponent_field(root) - kF32Bias + amax_exponent(amax);
  return exponent * (1 << kF32MantissaBits) + static_cast<std::int32_t>(bits_of(root) & kMantissa);
}

/// The channel's exponent, where the largest of all has the order `largest`. Order: an integer that holds
/// norm_order().
template <class Order>
OCTET_HD std::int32_t channel_exponent(Order order, Order largest, float amax) {
  constexpr Order kMantissa = (1 << kF32MantissaBits) - 1;
  if (amax == 0) return 0;
  // The whole octaves from the largest down to it, rounded down. note: the difference itself may need 33
  // bits.
  const auto exponent = [](Order x) { return static_cast<std::int32_t>(x >> kF32MantissaBits); };
  const std::int32_t borrow = (order & kMantissa) < (largest & kMantissa) ? 1 : 0;
  const std::int32_t octaves = exponent(order) - exponent(largest) - borrow;
  const std::int32_t in_range = amax_exponent(amax) - kLargestExponent;
  const std::int32_t least = in_range > kSmallestChannelExponent ? in_range : kSmallestChannelExponent;
  return octaves > least ? octaves : least;
}

}  // namespace octet::quant
