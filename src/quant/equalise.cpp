#include "quant/equalise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bits.h"
#include "quant/rows.h"

namespace octet::quant {
namespace {

constexpr int kSmallestNormalExponent = -126;
constexpr int kLargestExponent = 127;  // |x| < 2^(k + 1), and everything below 2^128 is finite

int exponent_field(float x) { return static_cast<int>(std::bit_cast<std::uint32_t>(x) >> kF32MantissaBits); }

/// floor(log2 amax), but not below that of the smallest normal number; amax > 0.
int amax_exponent(float amax) { return std::max(exponent_field(amax) - kF32Bias, kSmallestNormalExponent); }

/// A norm as one integer that orders like it does: its exponent above the 23 bits of its mantissa.
std::int64_t order_of(int exponent, std::uint32_t mantissa) {
  return (std::int64_t{exponent} << kF32MantissaBits) + mantissa;
}

}  // namespace

ChannelNorms::ChannelNorms(std::int64_t channels)
    : kernels_(row_kernels()),
      channels_(static_cast<std::size_t>(channels)),
      scratch_(channels_),
      amax_(channels_),
      least_(channels_, static_cast<std::int32_t>(kInfBits)),
      most_(channels_),
      squares_(channels) {}

FloatRows ChannelNorms::one(const float* row) const {
  return {row, 0, 1, static_cast<std::int64_t>(channels_)};
}

template <class Add>
void ChannelNorms::add_to_tree(const FloatRows& rows, const Add& add) {
  for (std::int64_t r = 0; r < rows.count;) {
    FloatRows part = rows;
    part.data = rows.row(r);
    part.count = std::min(rows.count - r, squares_.room());
    add(part, squares_.leaf());
    squares_.added(part.count);
    r += part.count;
  }
}

void ChannelNorms::see(const FloatRows& rows) {
  add_to_tree(rows, [&](const FloatRows& part, float* sum) {
    kernels_.add_plain_squares(part, sum, least_.data(), most_.data());
  });
}

bool ChannelNorms::exponents_at_once(std::int32_t* exponent) {
  squares_.finish(scratch_.data());
  const auto exponent_of = [](std::int32_t bits) { return (bits >> kF32MantissaBits) - kF32Bias; };
  for (std::size_t c = 0; c < amax_.size(); ++c) {
    // note: the bits of NaN are beyond those of Inf, or negative, which `least` finds.
    if (!is_finite(scratch_[c]) || exponent_of(std::min(least_[c], most_[c])) < kSmallestNormalExponent)
      return false;
    // amax^2 in [2^2k, 2^(2k + 2)) is still below its end when rounded, for amax is below its own by its last
    // place.
    const int k = exponent_of(most_[c]) >> 1;
    if (exponent_of(least_[c]) - 2 * k < kSmallestNormalExponent) return false;
    scratch_[c] *= power_of_two(-2 * k);
    amax_[c] = power_of_two(k);  // its exponent is what counts
  }
  compare(exponent);
  return true;
}

bool ChannelNorms::measure(const FloatRows& rows) {
  largest_.resize(channels_);
  return kernels_.channel_largest(rows, largest_.data()) < kInfBits;
}

void ChannelNorms::begin_squares() {
  largest_.resize(channels_), factor_.resize(channels_);
  for (std::size_t c = 0; c < amax_.size(); ++c) {
    amax_[c] = std::bit_cast<float>(largest_[c]);
    // 2^127 and 2^-127 are floats (the latter subnormal, but exact), so this is a plain multiplication.
    const int k = amax_[c] > 0 ? amax_exponent(amax_[c]) : 0;
    factor_[c] = amax_[c] == 0 ? 0.0f : k == kLargestExponent ? 0x1p-127f : power_of_two(-k);
  }
}

void ChannelNorms::square(const FloatRows& rows) {
  add_to_tree(rows,
              [&](const FloatRows& part, float* sum) { kernels_.add_squares(part, factor_.data(), sum); });
}

void ChannelNorms::exponents(std::int32_t* exponent) {
  squares_.finish(scratch_.data());
  compare(exponent);
}

void ChannelNorms::compare(std::int32_t* exponent) {
  // note: square roots of sums of scaled squares are normal numbers, of at least 2^-23.
  constexpr std::uint32_t kMantissa = (1u << kF32MantissaBits) - 1;
  for (std::size_t c = 0; c < channels_; ++c) scratch_[c] = std::sqrt(scratch_[c]);
  const auto order = [&](std::size_t c) {
    return order_of(exponent_field(scratch_[c]) - kF32Bias + amax_exponent(amax_[c]),
                    std::bit_cast<std::uint32_t>(scratch_[c]) & kMantissa);
  };
  std::int64_t largest = std::numeric_limits<std::int64_t>::min();
  for (std::size_t c = 0; c < channels_; ++c)
    if (amax_[c] > 0) largest = std::max(largest, order(c));
  for (std::size_t c = 0; c < channels_; ++c) {
    // The whole octaves from the largest down to it, rounded down: those of the difference.
    exponent[c] = 0;
    if (amax_[c] == 0) continue;
    const int octaves = static_cast<int>((order(c) - largest) >> kF32MantissaBits);
    exponent[c] = std::max({octaves, kSmallestChannelExponent, amax_exponent(amax_[c]) - kLargestExponent});
  }
}

}  // namespace octet::quant
