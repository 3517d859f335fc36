#include "quant/equalise.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/bits.h"
#include "quant/channel_exponent.h"
#include "quant/each_channel.h"
#include "quant/rows.h"

namespace octet::quant {
ChannelNorms::ChannelNorms(std::int64_t channels, std::int64_t tokens, Scratch& scratch)
    : kernels_(row_kernels()),
      channels_(channels),
      scratch_(scratch),
      root_(scratch.take<float>(channels)),
      amax_(scratch.take<float>(channels)),
      least_(scratch.take<std::int32_t>(channels)),
      most_(scratch.take<std::int32_t>(channels)),
      squares_(channels, tokens, scratch) {
  std::fill_n(least_, channels, static_cast<std::int32_t>(kInfBits));
  std::fill_n(most_, channels, 0);
}

FloatRows ChannelNorms::one(const float* row) const { return {row, 0, 1, channels_}; }

template <class AnyRows, class Add>
void ChannelNorms::add_to_tree(const AnyRows& rows, const Add& add) {
  for (std::int64_t r = 0; r < rows.count;) {
    AnyRows part = rows;
    part.data = rows.row(r);
    part.count = std::min(rows.count - r, squares_.room());
    add(part, squares_.leaf());
    squares_.added(part.count);
    r += part.count;
  }
}

void ChannelNorms::see(const Rows& rows) {
  add_to_tree(rows,
              [&](const Rows& part, float* sum) { kernels_.add_plain_squares(part, sum, least_, most_); });
}

bool ChannelNorms::exponents_at_once(std::int32_t* exponent) {
  squares_.finish(root_);
  const auto exponent_of = [](std::int32_t bits) { return (bits >> kF32MantissaBits) - kF32Bias; };
  const std::int32_t *least = least_, *most = most_;
  float *sum = root_, *amax = amax_;
  std::int32_t bad = 0;
  each_channel(channels_, [&](std::int64_t c) {
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
  each_channel(channels_, [&](std::int64_t c) { sum[c] *= power_of_two(-2 * (exponent_of(most[c]) >> 1)); });
  // Its exponent is what counts.
  each_channel(channels_, [&](std::int64_t c) { amax[c] = power_of_two(exponent_of(most[c]) >> 1); });
  compare(exponent);
  return true;
}

bool ChannelNorms::measure(const FloatRows& rows) {
  make_largest();
  return kernels_.channel_largest(rows, largest_) < kInfBits;
}

void ChannelNorms::make_largest() {
  if (largest_) return;
  largest_ = scratch_.take<std::uint32_t>(channels_);
  std::fill_n(largest_, channels_, 0);
}

void ChannelNorms::begin_squares() {
  make_largest();
  factor_ = scratch_.take<float>(channels_);
  for (std::int64_t c = 0; c < channels_; ++c) {
    amax_[c] = std::bit_cast<float>(largest_[c]);
    factor_[c] = square_factor(amax_[c]);
  }
}

void ChannelNorms::square(const FloatRows& rows) {
  add_to_tree(rows, [&](const FloatRows& part, float* sum) { kernels_.add_squares(part, factor_, sum); });
}

void ChannelNorms::exponents(std::int32_t* exponent) {
  squares_.finish(root_);
  compare(exponent);
}

void ChannelNorms::compare(std::int32_t* exponent) {
  constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::min();
  float* const root = root_;
  const float* const amax = amax_;
  each_channel(channels_, [&](std::int64_t c) { root[c] = std::sqrt(root[c]); });
  each_channel(channels_, [&](std::int64_t c) {
    const std::int32_t order = norm_order(root[c], amax[c]);
    exponent[c] = amax[c] > 0 ? order : kNone;
  });
  const std::int32_t largest =
      largest_of_channels(channels_, kNone, [&](std::int64_t c) { return exponent[c]; });
  each_channel(channels_,
               [&](std::int64_t c) { exponent[c] = channel_exponent(exponent[c], largest, amax[c]); });
}

}  // namespace octet::quant
