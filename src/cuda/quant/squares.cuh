// Sums of squares as they are, and whether they may stand for those of scaled numbers (quant/equalise.h).
#pragma once
#include <cstdint>

#include "cuda/quant/rows.cuh"
#include "quant/channel_exponent.h"

namespace octet::cuda {

/// The range of numbers' sizes in a word: the exponent field of the least that is not 0 (Inf's where there is
/// none) in the low byte, above it the upper bits of the largest, which are all that 16-bit numbers have.
inline constexpr int kRangeLargestBits = 24;
__device__ inline std::uint32_t range_of_sizes(std::uint32_t least_field, std::uint32_t largest_bits) {
  return least_field | largest_bits >> (31 - kRangeLargestBits) << 8;
}
__device__ inline std::uint32_t largest_of_range(std::uint32_t range) {
  return range >> 8 << (31 - kRangeLargestBits);
}
/// Of zeros alone.
inline constexpr std::uint32_t kRangeOfZeros = kInfBits >> kF32MantissaBits;

/// The smaller of the low bytes, the larger of the high ones.
__device__ inline std::uint32_t joined_range(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint32_t kLow = 0xff;
  return min(a & kLow, b & kLow) | max(a & ~kLow, b & ~kLow);
}

/// The ranges of two channels of 16-bit numbers as they are stored, two in a word.
struct PairRange {
  std::uint32_t below = 0x7fff7fffu;  // signed halves of sign bit | size, less 1: 0 is the largest number
  std::uint32_t most = 0x80008000u;   // halves of sign bit | size

  __device__ void see(std::uint32_t word) {
    const std::uint32_t size = word | 0x80008000u;
    most = __vmaxu2(most, size);
    below = __vmins2(below, size - 0x00010001u);
  }
  /// The largest |x| of both as bits.
  template <DType kType>
  __device__ std::uint32_t largest() const {
    return bits<kType>(max(most & 0x7fffu, most >> 16 & 0x7fffu));
  }
  /// Of channel 0 or 1.
  template <DType kType>
  __device__ std::uint32_t of(int channel) const {
    const int shift = channel * 16;
    const std::uint32_t least = (below >> shift & 0xffffu) + 1, largest = most >> shift;
    const std::uint32_t low = least == 0x8000u ? kRangeOfZeros : bits<kType>(least) >> kF32MantissaBits;
    return range_of_sizes(low, bits<kType>(largest));
  }

 private:
  template <DType kType>
  __device__ static std::uint32_t bits(std::uint32_t code) {
    const std::uint32_t size = code & 0x7fffu;
    return kType == DType::bf16 ? size << 16 : bits_of(ptx::number_of_f16(size));
  }
};

/// A channel's sum of scaled squares, and its largest |x|, of numbers of more than 16 bits rounded down.
struct SquareSum {
  float sum = 0, amax = 0;
  bool is_good = true;
};

/// From the sum of squares as they are. Good where they and those that are scaled are normal numbers, so that
/// the two sums are the same but for 2^2k.
__device__ inline SquareSum scaled_squares(float plain, std::uint32_t range) {
  constexpr int kSmallestSquared = -63, kLargestSquared = 63;  // exponents whose squares are normal numbers
  const std::uint32_t largest = largest_of_range(range);
  const int bottom = static_cast<int>(range & 0xff) - kF32Bias,
            k = static_cast<int>(largest >> kF32MantissaBits) - kF32Bias;
  SquareSum of{plain, 0, is_finite(plain)};  // note: NaN among zeros has no largest number, but a sum
  if (!of.is_good || range == kRangeOfZeros) return of;
  of.is_good = k <= kLargestSquared && bottom >= kSmallestSquared && bottom - k >= kSmallestSquared;
  if (of.is_good) of.sum = plain * power_of_two(-2 * k), of.amax = float_of(largest);
  return of;
}

/// The order of a norm of zeros alone, less than every other.
inline constexpr std::int32_t kOrderOfZeros = INT32_MIN;
/// The order of a channel's norm among others (quant/channel_exponent.h); of: good.
__device__ inline std::int32_t order_of(const SquareSum& of) {
  return of.amax > 0 ? quant::norm_order(__fsqrt_rn(of.sum), of.amax) : kOrderOfZeros;
}

/// Of channels whose norms nobody asks for. range: but for the least.
__device__ inline SquareSum largest_alone(std::uint32_t range) {
  const float amax = float_of(largest_of_range(range));
  return {0, amax, is_finite(amax)};
}

}  // namespace octet::cuda
