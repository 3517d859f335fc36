#include "quant/transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/scratch.h"
#include "quant/codes.h"

namespace octet::quant {
namespace {

/// Rows begin at cache lines.
constexpr std::int64_t kAlignment = 16;
/// Of a tile: 512 tokens of 64 channels, the widest key block. It stays in L2 with the rows that it is read
/// from.
constexpr std::int64_t kTileFloats = 32768;

}  // namespace

std::int64_t code_dim(std::int64_t dim, Rotate rotate) {
  return rotate == Rotate::on ? rotated_dim(dim) : dim;
}

RowReader::RowReader(const TensorView& x, const TokenRange& range, const OperandRecipe& recipe)
    : x_(x),
      range_(range),
      recipe_(recipe),
      kernels_(row_kernels()),
      tokens_(x, range),
      rotation_(x.shape[3], recipe.rotation_seed),
      channels_(code_dim(x.shape[3], recipe.rotate)),
      stride_((channels_ + kAlignment - 1) / kAlignment * kAlignment),
      capacity_(std::clamp<std::int64_t>(kTileFloats / stride_, 1, std::max<std::int64_t>(range.length, 1))) {
  Scratch& scratch = thread_scratch();
  scratch.reset();
  tile_ = scratch.take<float>(capacity_ * stride_);
  largest_ = scratch.take<std::uint32_t>(capacity_);
}

void RowReader::set_shift(const float* shift) {
  shift_.assign(shift, shift + x_.shape[3]);
  count_ = 0;
}

void RowReader::set_exponents(const std::int32_t* exponent) {
  equaliser_.resize(static_cast<std::size_t>(channels_));
  for (std::size_t c = 0; c < equaliser_.size(); ++c) equaliser_[c] = std::ldexp(1.0f, -exponent[c]);
  count_ = 0;
}

FloatRows RowReader::look(std::int64_t first, std::int64_t count) {
  const bool as_it_is =
      x_.dtype == DType::f32 && recipe_.rotate == Rotate::off && shift_.empty() && equaliser_.empty();
  if (as_it_is) {
    const Rows rows = tokens_.at(first, count);
    return {static_cast<const float*>(rows.data), rows.stride, rows.count, rows.channels};
  }
  read(first, count);
  return rows();
}

void RowReader::read(std::int64_t first, std::int64_t count) {
  if (first == first_ && count == count_) return;
  first_ = first, count_ = count;
  const RowSpace tile{tile_, stride_, channels_};
  const float* equaliser = equaliser_.empty() ? nullptr : equaliser_.data();
  RowSteps steps{shift_.empty() ? nullptr : shift_.data(), equaliser, 0};
  if (recipe_.rotate == Rotate::on) steps.factor = rotation_.factors(), steps.hadamard = rotation_.block();
  kernels_.read(tokens_.at(first, count), steps, tile, largest_);
  if (recipe_.rotate == Rotate::on && equaliser) {
    kernels_.read({tile_, DType::f32, stride_, count, channels_}, {nullptr, equaliser, 0}, tile, largest_);
  }
  for (std::int64_t r = 0; r < count; ++r) {
    if (largest_[r] >= kInfBits) confine(r);
  }
}

void RowReader::confine(std::int64_t r) {
  float* row = tile_ + r * stride_;
  if (is_integer(recipe_.format)) {
    if (bad_.token < 0) note_bad(first_ + r);
    std::fill_n(row, channels_, 0.0f);
    largest_[r] = 0;
  } else if (recipe_.format == DType::e4m3) {
    for (std::int64_t c = 0; c < channels_; ++c)
      row[c] = is_finite(row[c]) ? row[c] : std::numeric_limits<float>::quiet_NaN();
  }
}

// Names the input's first bad element; where all are finite, the largest one: it left the range on the way.
void RowReader::note_bad(std::int64_t token) {
  std::vector<float> input(static_cast<std::size_t>(x_.shape[3]));
  load_row(x_, range_.b, range_.h, range_.begin + token, input.data());
  auto at = std::find_if(input.begin(), input.end(), [](float v) { return !is_finite(v); });
  if (at == input.end()) {
    at = std::max_element(input.begin(), input.end(),
                          [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  }
  bad_ = {range_.begin + token, at - input.begin(), *at};
}

}  // namespace octet::quant
