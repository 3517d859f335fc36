// Which keys a query sees: causal, window, boolean mask and bias, in one place.
#pragma once
#include <algorithm>
#include <cstdint>

#include "call/operand.h"

namespace octet::call {

/// A half-open range of keys.
struct KeyRange {
  std::int64_t begin = 0, end = 0;
};

/// Keys that query i of m may see among n by causality and window. Aligned bottom-right: query i stands at
/// key i + n - m.
inline KeyRange visible_range(const AttentionDesc& desc, std::int64_t i, std::int64_t m, std::int64_t n) {
  const std::int64_t at = i + n - m;
  KeyRange range{0, n};
  if (desc.mask == Mask::causal) range.end = std::min(range.end, at + 1);
  if (desc.window_right >= 0) range.end = std::min(range.end, at + desc.window_right + 1);
  if (desc.window_left >= 0) range.begin = std::max(range.begin, at - desc.window_left);
  range.begin = std::clamp<std::int64_t>(range.begin, 0, n);
  range.end = std::clamp(range.end, range.begin, n);
  return range;
}

/// Whether causality and window hide nothing.
inline bool sees_all(const AttentionDesc& desc) {
  return desc.mask == Mask::none && desc.window_left < 0 && desc.window_right < 0;
}

/// Bias and mask of one (batch entry, head): what a key adds to the scaled score, or that it is hidden.
class HeadBias {
 public:
  HeadBias(const AttentionDesc& desc, const TensorView& bias, std::int64_t batch, std::int64_t head)
      : kind_(bias.data ? desc.bias : AttentionDesc::Bias::none), bias_(bias) {
    if (kind_ == AttentionDesc::Bias::none) return;
    base_ =
        (bias.shape[0] == 1 ? 0 : batch * bias.stride[0]) + (bias.shape[1] == 1 ? 0 : head * bias.stride[1]);
    row_stride_ = bias.shape[2] == 1 ? 0 : bias.stride[2];
    key_stride_ = bias.shape[3] == 1 ? 0 : bias.stride[3];
  }

  /// -inf hides the key; 0 where there is no bias.
  float at(std::int64_t query, std::int64_t key) const {
    if (kind_ == AttentionDesc::Bias::none) return 0;
    const std::int64_t offset = this->offset(query) + key * key_stride_;
    if (kind_ == AttentionDesc::Bias::additive) return number_at(bias_.data, bias_.dtype, offset);
    return static_cast<const std::uint8_t*>(bias_.data)[offset] ? 0.0f : -__builtin_huge_valf();
  }
  bool any() const { return kind_ != AttentionDesc::Bias::none; }

  /// The element of the query's key 0, and how far it is from a key's to the next key's.
  std::int64_t offset(std::int64_t query) const { return base_ + query * row_stride_; }
  std::int64_t key_stride() const { return key_stride_; }

 private:
  AttentionDesc::Bias kind_;
  const TensorView& bias_;
  std::int64_t base_ = 0, row_stride_ = 0, key_stride_ = 0;
};

}  // namespace octet::call
