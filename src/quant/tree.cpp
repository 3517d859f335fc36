#include "quant/tree.h"

#include <algorithm>

namespace octet::quant {

TreeSum::TreeSum(std::int64_t channels) : channels_(channels) {
  constexpr std::size_t kLevels = 4;  // of 1,024 tokens; more come when they are needed
  sums_.reserve(static_cast<std::size_t>(channels) * (1 + kLevels));
  sums_.resize(static_cast<std::size_t>(channels));
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
  for (; waits(level); ++level) {
    const float* left = level_sum(level);
    float* const sum = carry();
    for (std::int64_t c = 0; c < channels_; ++c) sum[c] = left[c] + sum[c];
    waiting_ &= ~(std::uint64_t{1} << level);
  }
  const auto needed = static_cast<std::size_t>((2 + level) * channels_);
  if (sums_.size() < needed) sums_.resize(needed);
  std::copy_n(carry(), channels_, level_sum(level));
  waiting_ |= std::uint64_t{1} << level;
}

void TreeSum::finish(float* sum) {
  // From the right: what is left over at a lower level is the right neighbour of the next one above it.
  bool empty = in_leaf_ == 0;
  float* const right = carry();
  for (std::int64_t level = 0; waiting_ >> level != 0; ++level) {
    if (!waits(level)) continue;
    const float* left = level_sum(level);
    for (std::int64_t c = 0; c < channels_; ++c) right[c] = empty ? left[c] : left[c] + right[c];
    empty = false;
  }
  for (std::int64_t c = 0; c < channels_; ++c) sum[c] = empty ? 0.0f : right[c];
  waiting_ = 0;
  in_leaf_ = 0;
}

}  // namespace octet::quant
