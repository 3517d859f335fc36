#include "quant/equalise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bits.h"
#include "quant/channel_exponent.h"
#include "quant/rows.h"

namespace octet::quant {
namespace {

/// Many at once, which the compiler takes in vectors.
void take_roots(std::vector<float>& x) {
  constexpr std::size_t kTogether = 16;
  std::size_t c = 0;
  for (; c + kTogether <= x.size(); c += kTogether)
    for (std::size_t i = 0; i < kTogether; ++i) x[c + i] = std::sqrt(x[c + i]);
  for (; c < x.size(); ++c) x[c] = std::sqrt(x[c]);
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
    factor_[c] = square_factor(amax_[c]);
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
  take_roots(scratch_);
  orders_.resize(channels_);
  std::int64_t largest = std::numeric_limits<std::int64_t>::min();
  for (std::size_t c = 0; c < channels_; ++c) {
    orders_[c] = norm_order(scratch_[c], amax_[c]);
    if (amax_[c] > 0) largest = std::max(largest, orders_[c]);
  }
  for (std::size_t c = 0; c < channels_; ++c) exponent[c] = channel_exponent(orders_[c], largest, amax_[c]);
}

}  // namespace octet::quant
