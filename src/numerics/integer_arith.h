// Small exact integer arithmetic of the scheme `integer`: rounding shifts, f32 taken apart, logarithms. Plain
// scalars, for what a row, a key or a key block needs once. docs/numerics/integer.md has the formulas.
#pragma once
#include <bit>
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet::integer {

OCTET_HD constexpr std::int32_t bit_length(std::uint64_t x) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return 64 - __clzll(static_cast<long long>(x));
  std::int32_t bits = 0;
  for (std::int32_t half = 32; half != 0; half >>= 1) {
    const bool upper = (x >> half) != 0;
    bits += upper ? half : 0;
    x = upper ? x >> half : x;
  }
  return bits + (x != 0 ? 1 : 0);
#else
  return static_cast<std::int32_t>(std::bit_width(x));
#endif
}

/// x * 2^-n rounded to nearest, ties upwards. |x| < 2^62; a negative n shifts left, and the caller knows that
/// the result fits.
OCTET_HD constexpr std::int64_t shift_round(std::int64_t x, std::int32_t n) {
  if (n > 62) return 0;
  if (n <= 0) return x * (std::int64_t{1} << -n);
  return (x + (std::int64_t{1} << (n - 1))) >> n;
}

/// x where `sign` is not negative, else -x. Without a branch: the signs of outputs are as good as random.
OCTET_HD constexpr std::int64_t with_sign(std::int64_t x, std::int64_t sign) {
  const std::int64_t negative = sign >> 63;
  return (x ^ negative) - negative;
}

/// mantissa * 2^exponent, the mantissa in [2^(bits - 1), 2^bits), or 0.
struct Scaled {
  std::int64_t mantissa = 0;
  std::int32_t exponent = 0;
};

/// A finite f32 >= 0, exactly, with 24 bits.
OCTET_HD constexpr Scaled split(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::int32_t biased = static_cast<std::int32_t>(bits >> kF32MantissaBits);
  std::int64_t mantissa = bits & 0x7fffffu;
  if (biased > 0) return {mantissa | 0x800000, biased - 150};
  if (mantissa == 0) return {};
  const std::int32_t up = 24 - bit_length(static_cast<std::uint64_t>(mantissa));  // a subnormal
  return {mantissa << up, -149 - up};
}

/// x rounded to `bits` bits; rounding may carry to 2^bits, which is brought back below it.
OCTET_HD constexpr Scaled normalised(std::int64_t x, std::int32_t exponent, std::int32_t bits) {
  if (x == 0) return {};
  const std::int32_t drop = bit_length(static_cast<std::uint64_t>(x)) - bits;
  const std::int64_t mantissa = shift_round(x, drop);
  const std::int32_t carry = static_cast<std::int32_t>(mantissa >> bits);
  return {mantissa >> carry, exponent + drop + carry};
}

/// round(2^11 * 2^(i / 16))
struct Folds {
  std::int32_t of[16] = {2048, 2139, 2233, 2332, 2435, 2543, 2656, 2774,
                         2896, 3025, 3158, 3298, 3444, 3597, 3756, 3922};
};

/// The same without a table, which a GPU would have in local memory: a cubic, and where it is one too low.
OCTET_HD constexpr std::int32_t fold_in_words(std::int32_t i) {
  constexpr std::int32_t kTooLow = 0x3eb;  // a bit an i
  return ((((10 * i + 464) * i + 22798) * i + 524145) >> 8) + (kTooLow >> i & 1);
}
constexpr bool folds_agree() {
  constexpr Folds kFolds;
  for (std::int32_t i = 0; i < 16; ++i)
    if (fold_in_words(i) != kFolds.of[i]) return false;
  return true;
}
static_assert(folds_agree(), "both are round(2^11 * 2^(i / 16))");

/// log2(x) in units of 2^-24, truncated, for 1 <= x < 2^63: each squaring of a 32-bit mantissa yields one
/// bit.
OCTET_HD constexpr std::int64_t log2_q24(std::int64_t x) {
  const std::int32_t bits = bit_length(static_cast<std::uint64_t>(x));
  std::uint64_t mantissa = static_cast<std::uint64_t>(bits <= 32 ? x << (32 - bits) : x >> (bits - 32));
  std::int64_t result = bits - 1;
  for (int i = 0; i < 24; ++i) {
    mantissa = (mantissa * mantissa) >> 31;
    const std::uint64_t bit = mantissa >> 32;
    mantissa >>= bit;
    result = result * 2 + static_cast<std::int64_t>(bit);
  }
  return result;
}

}  // namespace octet::integer
