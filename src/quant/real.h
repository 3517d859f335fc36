// From a code back to a number. The same text on the host and on the GPU.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet::quant {

/// code * factor. The largest code times a rounded scale can exceed the largest float by its last place: it
/// saturates. An infinite or no number stays one.
OCTET_HD float scaled_code(float code, float factor) {
  constexpr float kLargest = 0x1.fffffep127f;
  const float real = code * factor;
  const float above = real > kLargest ? kLargest : real, held = above < -kLargest ? -kLargest : above;
  return magnitude(code) <= kLargest ? held : real;
}

/// x * 2^exponent, rounded once, for every exponent.
OCTET_HD float times_power_of_two(float x, std::int32_t exponent) {
  if (exponent >= -126 && exponent <= 127) return x * power_of_two(exponent);
  // A double holds every product that is no zero or Inf as a float.
  constexpr std::int32_t kMost = 300, kDoubleBias = 1023, kDoubleMantissaBits = 52;
  const std::int32_t held = exponent < -kMost ? -kMost : exponent > kMost ? kMost : exponent;
  const auto bits = static_cast<std::uint64_t>(held + kDoubleBias) << kDoubleMantissaBits;
  return static_cast<float>(static_cast<double>(x) * __builtin_bit_cast(double, bits));
}

}  // namespace octet::quant
