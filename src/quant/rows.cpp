#include "quant/rows.h"

#include <algorithm>

#include "numerics/formats.h"

namespace octet::quant {
namespace {

template <class Stored, class Convert>
void load(const TensorView& x, std::int64_t offset, float* row, Convert convert) {
  const Stored* from = static_cast<const Stored*>(x.data) + offset;
  const std::int64_t dim = x.shape[3], stride = x.stride[3];
  if (stride == 1) {  // a loop of its own, so that it vectorises
    for (std::int64_t c = 0; c < dim; ++c) row[c] = convert(from[c]);
  } else {
    for (std::int64_t c = 0; c < dim; ++c) row[c] = convert(from[c * stride]);
  }
}

}  // namespace

void load_row(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t, float* row) {
  const std::int64_t offset = row_offset(x, b, h, t);
  switch (x.dtype) {
    case DType::f16:
      return load<std::uint16_t>(x, offset, row, f32_from_f16);
    case DType::bf16:
      return load<std::uint16_t>(x, offset, row, f32_from_bf16);
    case DType::f64:
      return load<double>(x, offset, row, [](double v) { return static_cast<float>(v); });
    default:
      return load<float>(x, offset, row, [](float v) { return v; });
  }
}

float largest_finite(const float* row, std::int64_t channels) {
  float largest = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    if (is_finite(row[c])) largest = std::max(largest, row[c] < 0 ? -row[c] : row[c]);
  }
  return largest;
}

}  // namespace octet::quant
