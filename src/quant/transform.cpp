#include "quant/transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/ask_for.h"
#include "base/bits.h"
#include "base/cpu_features.h"
#include "base/scratch.h"
#include "quant/codes.h"
#include "quant/each_channel.h"

namespace octet::quant {
namespace {

/// Rows begin at cache lines.
constexpr std::int64_t kAlignment = 16;
/// Of a tile: 512 tokens of 128 channels. It stays in L2 with the rows that it is read from.
constexpr std::int64_t kTileFloats = 65536;
/// Of one that holds all tokens of the range: 1,024 of 128 channels. Its rows are not read, shifted and
/// rotated a second time (Zen 5: attention on 16 x 1024 x 128 with K's scale of all 1,024 keys, quantising
/// counted, 11.6 -> 11.3 ms).
constexpr std::int64_t kMostTileFloats = 131072;

std::int64_t tile_rows(std::int64_t stride, std::int64_t tokens) {
  const bool holds_all = tokens * stride <= kMostTileFloats;
  return std::min(whole_columns((holds_all ? kMostTileFloats : kTileFloats) / stride),
                  std::max<std::int64_t>(tokens, 1));
}

/// Whether tokens that are read once are worth asking for: those of a tensor that no second-level cache
/// holds.
bool comes_from_memory(const TensorView& x) {
  constexpr std::int64_t kLeastBytes = 2 * 1024 * 1024;
  static const bool gains = gains_by_asking();
  const std::int64_t bytes = bytes_of_number(x.dtype);
  return gains && x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3] * bytes > kLeastBytes;
}

}  // namespace

bool reads_twice(const OperandRecipe& recipe) {
  return recipe.smooth == Smooth::mean || recipe.equalise == Equalise::on;
}

std::int64_t code_dim(std::int64_t dim, Rotate rotate) {
  return rotate == Rotate::on ? rotated_dim(dim) : dim;
}

RowReader::RowReader(const TensorView& x, const TokenRange& range, const OperandRecipe& recipe,
                     const Rotation& rotation)
    : x_(x),
      range_(range),
      recipe_(recipe),
      kernels_(row_kernels()),
      tokens_(x, range),
      rotation_(rotation),
      channels_(code_dim(x.shape[3], recipe.rotate)),
      stride_((channels_ + kAlignment - 1) / kAlignment * kAlignment),
      capacity_(tile_rows(stride_, range.length)),
      tokens_have_scales_(recipe.granularity == Granularity::token && has_scales(recipe.format)) {
  if (!reads_twice(recipe) && comes_from_memory(x)) tokens_.set_ahead(kBytesAhead);
  Scratch& scratch = thread_scratch();
  scratch.reset();
  tile_ = scratch.take<float>(capacity_ * stride_);
  largest_ = scratch.take<std::uint32_t>(capacity_);
}

void RowReader::set_shift(const float* shift) {
  shift_ = thread_scratch().take<float>(x_.shape[3]);
  std::copy_n(shift, x_.shape[3], shift_);
  held_ = Held::nothing;
}

void RowReader::set_exponents(const std::int32_t* exponent) {
  equaliser_ = thread_scratch().take<float>(channels_);
  each_channel(channels_, [&](std::int64_t c) { equaliser_[c] = power_of_two(-exponent[c]); });
  held_ = Held::nothing;
}

FloatRows RowReader::look(std::int64_t first, std::int64_t count) {
  if (x_.dtype == DType::f32 && is_plain()) {
    held_ = Held::nothing;
    const Rows rows = tokens_.at(first, count);
    return {static_cast<const float*>(rows.data), rows.stride, rows.count, rows.channels,
            static_cast<const float*>(rows.next)};
  }
  read(first, count);
  return rows();
}

void RowReader::read_factored(std::int64_t first, std::int64_t count) {
  if (holds(first, count, Held::factored)) return;
  if (is_factored()) {
    const Rows rows = tokens_.at(first, count);
    peak_ = kernels_.row_largest(rows, equaliser_, row_peaks());
    if (peak_ < kInfBits) {
      first_ = first, count_ = count, held_ = Held::factored, factored_ = {rows, equaliser_};
      return;
    }
  }
  read(first, count);
}

void RowReader::read(std::int64_t first, std::int64_t count) {
  if (holds(first, count, Held::rows)) return;
  first_ = first, count_ = count, held_ = Held::rows;
  const RowSpace tile{tile_, stride_, channels_};
  RowSteps steps{shift_, equaliser_, 0};
  if (recipe_.rotate == Rotate::on) steps.factor = rotation_.factors(), steps.hadamard = rotation_.block();
  peak_ = kernels_.read(tokens_.at(first, count), steps, tile, row_peaks());
  if (recipe_.rotate == Rotate::on && equaliser_) {
    peak_ = kernels_.read({tile_, DType::f32, stride_, count, channels_}, {nullptr, equaliser_, 0}, tile,
                          row_peaks());
  }
  if (peak_ >= kInfBits) confine();
  factored_ = {rows(), nullptr};
}

void RowReader::confine() {
  if (!row_peaks()) kernels_.row_largest(rows(), nullptr, largest_);
  peak_ = 0;
  for (std::int64_t r = 0; r < count_; ++r) {
    if (largest_[r] >= kInfBits) confine(r);
    peak_ = std::max(peak_, largest_[r]);
  }
}

void RowReader::confine(std::int64_t r) {
  float* row = tile_ + r * stride_;
  if (is_integer(recipe_.format)) {
    if (bad_.token < 0) note_bad(first_ + r);
    std::fill_n(row, channels_, 0.0f);
  } else if (recipe_.format == DType::e4m3) {
    for (std::int64_t c = 0; c < channels_; ++c)
      row[c] = is_finite(row[c]) ? row[c] : std::numeric_limits<float>::quiet_NaN();
  }
  largest_[r] = std::bit_cast<std::uint32_t>(largest_finite(row, channels_));
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
