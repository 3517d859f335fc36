#include "quant/tree.h"

#include <algorithm>
#include <bit>

#include "quant/each_channel.h"

namespace octet::quant {

TreeSum::TreeSum(std::int64_t channels, std::int64_t tokens, Scratch& scratch) : channels_(channels) {
  const auto leaves = static_cast<std::uint64_t>((tokens + kLeafTokens - 1) / kLeafTokens);
  sums_ = scratch.take<float>(channels * (1 + static_cast<std::int64_t>(std::bit_width(leaves))));
}

float* TreeSum::leaf() {
  // note: -0 and not 0, for only -0 + x is x for every x, -0 among them.
  if (in_leaf_ == 0) std::fill_n(carry(), channels_, -0.0f);
  return carry();
}

void TreeSum::added(std::int64_t rows) {
  in_leaf_ += rows;
  if (in_leaf_ == kLeafTokens) push(0);
}

void TreeSum::push(std::int64_t level) {
  in_leaf_ = 0;
  float* const sum = carry();
  for (; waits(level); ++level) {
    const float* left = level_sum(level);
    each_channel(channels_, [&](std::int64_t c) { sum[c] = left[c] + sum[c]; });
    waiting_ &= ~(std::uint64_t{1} << level);
  }
  std::copy_n(sum, channels_, level_sum(level));
  waiting_ |= std::uint64_t{1} << level;
}

void TreeSum::finish(float* sum) {
  // From the right: what is left over at a lower level is the right neighbour of the next one above it.
  float* const joined = carry();
  const float* right = in_leaf_ > 0 ? joined : nullptr;
  for (std::int64_t level = 0; waiting_ >> level != 0; ++level) {
    if (!waits(level)) continue;
    const float* left = level_sum(level);
    if (right) each_channel(channels_, [&](std::int64_t c) { joined[c] = left[c] + right[c]; });
    right = right ? joined : left;
  }
  if (right)
    std::copy_n(right, channels_, sum);
  else
    std::fill_n(sum, channels_, 0.0f);
  waiting_ = 0;
  in_leaf_ = 0;
}

}  // namespace octet::quant
