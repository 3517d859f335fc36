#include "quant/equalise.h"

#include <algorithm>
#include <bit>

#include "base/bits.h"
#include "quant/channel_exponent.h"
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
  if (!kernels_.scale_squares(root_, least_, most_, amax_, channels_)) return false;
  kernels_.exponents(root_, amax_, channels_, exponent);
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
  kernels_.exponents(root_, amax_, channels_, exponent);
}

}  // namespace octet::quant
