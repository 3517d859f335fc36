#include "quant/equalise.h"

#include <algorithm>
#include <cmath>

#include "quant/rows.h"

namespace octet::quant {
namespace {

constexpr int kSmallestNormalExponent = -126;
constexpr int kLargestExponent = 127;  // |x| < 2^(k + 1), and everything below 2^128 is finite

int amax_exponent(float amax) { return std::max(std::ilogb(amax), kSmallestNormalExponent); }

}  // namespace

ChannelNorms::ChannelNorms(std::int64_t channels)
    : kernels_(row_kernels()),
      largest_(static_cast<std::size_t>(channels)),
      amax_(largest_.size()),
      factor_(largest_.size()),
      scratch_(largest_.size()),
      squares_(channels) {}

FloatRows ChannelNorms::one(const float* row) const {
  return {row, 0, 1, static_cast<std::int64_t>(largest_.size())};
}

bool ChannelNorms::measure(const FloatRows& rows) {
  return kernels_.channel_largest(rows, largest_.data()) < kInfBits;
}

void ChannelNorms::begin_squares() {
  for (std::size_t c = 0; c < amax_.size(); ++c) {
    amax_[c] = std::bit_cast<float>(largest_[c]);
    // 2^127 and 2^-127 are floats (the latter subnormal, but exact), so this is a plain multiplication.
    factor_[c] = amax_[c] > 0 ? std::ldexp(1.0f, -amax_exponent(amax_[c])) : 0.0f;
  }
}

void ChannelNorms::square(const FloatRows& rows) {
  for (std::int64_t r = 0; r < rows.count;) {
    FloatRows part = rows;
    part.data = rows.row(r);
    part.count = std::min(rows.count - r, squares_.room());
    kernels_.add_squares(part, factor_.data(), squares_.leaf());
    squares_.added(part.count);
    r += part.count;
  }
}

void ChannelNorms::exponents(std::int32_t* exponent) {
  squares_.finish(scratch_.data());
  // Norms as mantissa in [1/2, 1) and exponent; the largest first.
  int largest_exponent = 0;
  float largest_mantissa = 0;
  for (std::size_t c = 0; c < amax_.size(); ++c) {
    exponent[c] = 0;
    if (amax_[c] == 0) continue;
    int e = 0;
    const float mantissa = std::frexp(std::sqrt(scratch_[c]), &e);
    e += amax_exponent(amax_[c]);
    scratch_[c] = mantissa;
    exponent[c] = e;
    if (largest_mantissa == 0 || e > largest_exponent ||
        (e == largest_exponent && mantissa > largest_mantissa)) {
      largest_exponent = e;
      largest_mantissa = mantissa;
    }
  }
  for (std::size_t c = 0; c < amax_.size(); ++c) {
    if (amax_[c] == 0) continue;
    const int octaves = exponent[c] - largest_exponent - (scratch_[c] < largest_mantissa ? 1 : 0);
    exponent[c] = std::max({octaves, kSmallestChannelExponent, amax_exponent(amax_[c]) - kLargestExponent});
  }
}

}  // namespace octet::quant
