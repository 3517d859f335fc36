#include "quant/tree.h"

#include <algorithm>

namespace octet::quant {

TreeSum::TreeSum(std::int64_t channels) : channels_(channels), carry_(static_cast<std::size_t>(channels)) {}

float* TreeSum::leaf() {
  // note: -0 and not 0, for only -0 + x is x for every x, -0 among them.
  if (in_leaf_ == 0) std::fill(carry_.begin(), carry_.end(), -0.0f);
  return carry_.data();
}

void TreeSum::added(std::int64_t rows) {
  in_leaf_ += rows;
  if (in_leaf_ == kLeafTokens) push(0);
}

void TreeSum::push(std::size_t level) {
  in_leaf_ = 0;
  for (;; ++level) {
    if (level == levels_.size()) {
      levels_.emplace_back(static_cast<std::size_t>(channels_));
      occupied_.push_back(0);
    }
    std::vector<float>& left = levels_[level];
    if (!occupied_[level]) {
      left.swap(carry_);
      occupied_[level] = 1;
      return;
    }
    for (std::size_t c = 0; c < left.size(); ++c) carry_[c] = left[c] + carry_[c];
    occupied_[level] = 0;
  }
}

void TreeSum::finish(float* sum) {
  // From the right: what is left over at a lower level is the right neighbour of the next one above it.
  bool empty = in_leaf_ == 0;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    if (!occupied_[level]) continue;
    const std::vector<float>& left = levels_[level];
    for (std::size_t c = 0; c < left.size(); ++c) carry_[c] = empty ? left[c] : left[c] + carry_[c];
    empty = false;
  }
  for (std::int64_t c = 0; c < channels_; ++c) sum[c] = empty ? 0.0f : carry_[static_cast<std::size_t>(c)];
  std::fill(occupied_.begin(), occupied_.end(), 0);
  in_leaf_ = 0;
}

}  // namespace octet::quant
