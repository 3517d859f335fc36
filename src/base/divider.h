// Division by a number that is known before a kernel runs.
#pragma once
#include <cstdint>

#include "base/hd.h"

namespace octet {

/// Division of 0 <= n <= 2^31 by a number from 1 to 2^31 in three instructions, none of which is one of
/// floats, as the compilers' division on GPUs is. Stands for the number itself otherwise; 0 is a number that
/// nothing is divided by. Source: Granlund, Montgomery, "Division by invariant integers using multiplication"
/// (1994), figure 4.1.
struct Divider {
  std::uint32_t divisor = 1, magic = 1;
  std::int32_t shift = 0;

  constexpr Divider() = default;
  OCTET_HD constexpr explicit Divider(std::int64_t by) : divisor(static_cast<std::uint32_t>(by)) {
    while ((std::uint64_t{1} << shift) < divisor) ++shift;
    // magic - 1 = floor(2^32 (2^shift - divisor) / divisor), below 2^32; on a GPU bit by bit.
    std::uint64_t rest = (std::uint64_t{1} << shift) - divisor;
#ifndef __CUDA_ARCH__
    magic = divisor > 0 ? static_cast<std::uint32_t>((rest << 32) / divisor) + 1 : 1;
#else
    std::uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) {
      rest *= 2;
      const bool bit = rest >= divisor;
      rest -= bit ? divisor : 0;
      bits = bits * 2 + (bit ? 1 : 0);
    }
    magic = bits + 1;
#endif
  }
  /// Of a power of two, without a loop.
  static OCTET_HD constexpr Divider power_of_two(std::int32_t exponent) {
    Divider d;
    d.divisor = std::uint32_t{1} << exponent, d.shift = exponent;
    return d;
  }

  OCTET_HD constexpr std::uint32_t quotient(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * magic) >> 32);
    return (high + n) >> shift;  // high <= n <= 2^31
  }
  OCTET_HD constexpr operator std::int32_t() const { return static_cast<std::int32_t>(divisor); }
  friend OCTET_HD constexpr std::int32_t operator/(std::int32_t n, const Divider& d) {
    return static_cast<std::int32_t>(d.quotient(static_cast<std::uint32_t>(n)));
  }
};

}  // namespace octet
