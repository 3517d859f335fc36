// The one kind of division that the scheme `integer` needs, in multiplications: compilers divide integers by
// instructions of floats on GPUs.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/integer_arith.h"

namespace octet::integer {

/// floor(n / d) for 0 <= n < 2^62 and 0 < d < 2^31 where that is below 2^31. By Newton's method for 1 / d;
/// what its truncations leave goes by the remainder.
OCTET_HD constexpr std::int64_t quotient(std::int64_t n, std::int64_t d) {
  const std::int32_t up = 32 - bit_length(static_cast<std::uint64_t>(d));
  const std::uint64_t x = static_cast<std::uint64_t>(d) << up;  // in units of 2^-32: 1/2 <= x < 1
  // 48/17 - 32/17 x is 1 / x within 1/17, and each step squares that error: 2^-32 after three.
  constexpr std::uint64_t kConstant = 6063535887, kSlope = 4042357257;  // 2^31 times these
  constexpr int kSteps = 3;
  std::uint64_t y = kConstant - (kSlope * x >> 32);
  for (int i = 0; i < kSteps; ++i) y = y * ((std::uint64_t{1} << 32) - (x * y >> 32)) >> 31;
  const std::int32_t bits = bit_length(static_cast<std::uint64_t>(n));
  const auto top = static_cast<std::uint64_t>(bits > 32 ? n >> (bits - 32) : n << (32 - bits));
  const std::int32_t down = 95 - up - bits;  // 64 or more: n < d
  auto q = static_cast<std::int64_t>(down < 64 ? top * y >> down : 0);
  // y is less than 2^-31 too large, relatively, and 1.31 2^-31 too small, top another 2^-31; q is truncated
  // too, below 2^31, and so at most one too large or three too small. top * y <= (2^32 - 1) (2^32 + 1) fits.
  // note: a loop for as long as it takes would be made a division by the compiler.
  std::int64_t rest = n - q * d;
  if (rest < 0) --q, rest += d;
  for (int i = 0; i < 3; ++i)
    if (rest >= d) ++q, rest -= d;
  return q;
}

inline constexpr std::int64_t kReciprocalUnit = 1157442765409226768;  ///< round(2^61 * 128 / 255)

/// round(2^61 * (128 / 255) / x) for the 31-bit mantissa of a row sum: P's unit over the weights'.
OCTET_HD constexpr std::int64_t reciprocal_of_sum(std::int64_t x) {
  return quotient(kReciprocalUnit + x / 2, x);
}

/// The same from a number within 16 of it: what that leaves, below 2^36 in size, is divided by x < 2^31 by a
/// multiplication with it, whose product is off by less than one.
OCTET_HD constexpr std::int64_t reciprocal_of_sum(std::int64_t x, std::int64_t near) {
  const std::int64_t rest = kReciprocalUnit + x / 2 - near * x;
  const std::int64_t q = near + ((rest >> 5) * near >> 55);
  const std::int64_t left = kReciprocalUnit + x / 2 - q * x;
  return q + (left >= x ? 1 : 0) - (left < 0 ? 1 : 0);
}

/// The same within 6, in words. x: the sum's 32 highest bits, of which the highest is set: X = 2^-32 x in
/// 1/2...1. By Newton's method for 1 / X as above, in units of 2^-30; a step's product and its factor are
/// truncated.
template <class L>
OCTET_HD std::uint32_t near_reciprocal_of_sum(std::uint32_t x) {
  constexpr std::uint32_t kConstant = 3031741621, kSlope = 2021161080;  // 48/17 and 32/17
  constexpr std::uint32_t kUnit = 2155905153;                           // round(2^32 * 128 / 255)
  constexpr int kSteps = 3;
  std::uint32_t y = kConstant - L::mulhi_u32(kSlope, x);
  for (int i = 0; i < kSteps; ++i)
    y = static_cast<std::uint32_t>(std::uint64_t{y} * ((1u << 31) - L::mulhi_u32(y, x)) >> 30);
  return L::mulhi_u32(y, kUnit);
}

}  // namespace octet::integer
