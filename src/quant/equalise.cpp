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

/// body(c) of every channel, many at once: the compiler takes loops of known length in vectors.
template <class Body>
void each_channel(std::size_t channels, const Body& body) {
  constexpr std::size_t kTogether = 16;
  std::size_t c = 0;
  for (; c + kTogether <= channels; c += kTogether)
    for (std::size_t i = 0; i < kTogether; ++i) body(c + i);
  for (; c < channels; ++c) body(c);
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
  const std::int32_t *least = least_.data(), *most = most_.data();
  float *sum = scratch_.data(), *amax = amax_.data();
  std::int32_t bad = 0;
  each_channel(channels_, [&](std::size_t c) {
    // note: the bits of NaN are beyond those of Inf, or negative, which `least` finds.
    const std::int32_t smaller = least[c] < most[c] ? least[c] : most[c], size = bits_of(sum[c]) & kAbsMask;
    // amax^2 in [2^2k, 2^(2k + 2)) is still below its end when rounded, for amax is below its own by its last
    // place.
    const std::int32_t k = exponent_of(most[c]) >> 1, scaled = exponent_of(least[c]) - 2 * k;
    bad |= (size >= static_cast<std::int32_t>(kInfBits) ? 1 : 0) |
           (exponent_of(smaller) < kSmallestNormalExponent ? 1 : 0) |
           (scaled < kSmallestNormalExponent ? 1 : 0);
  });
  if (bad != 0) return false;
  each_channel(channels_, [&](std::size_t c) { sum[c] *= power_of_two(-2 * (exponent_of(most[c]) >> 1)); });
  // Its exponent is what counts.
  each_channel(channels_, [&](std::size_t c) { amax[c] = power_of_two(exponent_of(most[c]) >> 1); });
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
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::min();
  float* const root = scratch_.data();
  const float* const amax = amax_.data();
  std::int32_t largest = kNone;
  each_channel(channels_, [&](std::size_t c) { root[c] = std::sqrt(root[c]); });
  each_channel(channels_, [&](std::size_t c) {
    exponent[c] = norm_order(root[c], amax[c]);
    const std::int32_t counted = amax[c] > 0 ? exponent[c] : kNone;
    largest = counted > largest ? counted : largest;
  });
  each_channel(channels_,
               [&](std::size_t c) { exponent[c] = channel_exponent(exponent[c], largest, amax[c]); });
}

}  // namespace octet::quant
