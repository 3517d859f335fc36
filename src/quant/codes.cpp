#include "quant/codes.h"

#include <algorithm>

#include "numerics/formats.h"
#include "quant/row_kernels.h"
#include "quant/rows.h"

namespace octet::quant {
namespace {

void write_s8(std::int8_t* to, const float* values, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; ++c) {
    to[c] = static_cast<std::int8_t>(nearest_code(values[c], 127.0f));
  }
}

void write_s4(std::uint8_t* to, const float* values, std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += 2) {
    const auto low = static_cast<std::int8_t>(nearest_code(values[c], 7.0f));
    const float next = c + 1 < channels ? values[c + 1] : 0.0f;
    to[c / 2] = s4_pack(low, static_cast<std::int8_t>(nearest_code(next, 7.0f)));
  }
}

}  // namespace

bool has_scales(DType format) { return largest_code_of(format) > 0; }

bool is_integer(DType format) { return format == DType::s8 || format == DType::s4; }

float largest_code_of(DType format) {
  switch (format) {
    case DType::s8:
      return 127;
    case DType::s4:
      return 7;
    case DType::e4m3:
      return kE4M3Max;
    case DType::e5m2:
      return kE5M2Max;
    default:
      return 0;
  }
}

void write_codes(const TensorView& codes, std::int64_t b, std::int64_t h, std::int64_t t, const float* values,
                 std::int64_t channels) {
  const std::int64_t offset = row_offset(codes, b, h, t);
  switch (codes.dtype) {
    case DType::s8:
      return write_s8(static_cast<std::int8_t*>(codes.data) + offset, values, channels);
    case DType::s4:
      return write_s4(static_cast<std::uint8_t*>(codes.data) + offset / 2, values, channels);
    case DType::e4m3:
    case DType::e5m2:
      return row_kernels().narrow({values, 0, 1, channels}, codes.dtype,
                                  static_cast<std::uint8_t*>(codes.data) + offset, 0);
    case DType::f16:
    case DType::bf16:
      return row_kernels().narrow({values, 0, 1, channels}, codes.dtype,
                                  static_cast<std::uint16_t*>(codes.data) + offset, 0);
    case DType::f64:
      std::copy_n(values, channels, static_cast<double*>(codes.data) + offset);
      return;
    default:
      std::copy_n(values, channels, static_cast<float*>(codes.data) + offset);
      return;
  }
}

void read_codes(const TensorView& codes, std::int64_t b, std::int64_t h, std::int64_t t, float* values) {
  const std::int64_t dim = codes.shape[3];
  const std::int64_t offset = row_offset(codes, b, h, t);
  switch (codes.dtype) {
    case DType::s8: {
      const auto* from = static_cast<const std::int8_t*>(codes.data) + offset;
      for (std::int64_t c = 0; c < dim; ++c) values[c] = from[c];
      return;
    }
    case DType::s4: {
      const auto* from = static_cast<const std::uint8_t*>(codes.data) + offset / 2;
      for (std::int64_t c = 0; c < dim; ++c) values[c] = c % 2 ? s4_high(from[c / 2]) : s4_low(from[c / 2]);
      return;
    }
    case DType::e4m3: {
      const auto* from = static_cast<const std::uint8_t*>(codes.data) + offset;
      for (std::int64_t c = 0; c < dim; ++c) values[c] = f32_from_e4m3(from[c]);
      return;
    }
    case DType::e5m2: {
      const auto* from = static_cast<const std::uint8_t*>(codes.data) + offset;
      for (std::int64_t c = 0; c < dim; ++c) values[c] = f32_from_e5m2(from[c]);
      return;
    }
    default:
      return load_row(codes, b, h, t, values);
  }
}

}  // namespace octet::quant
