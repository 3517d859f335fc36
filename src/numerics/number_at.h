// A number of a tensor, whatever its format.
#pragma once
#include <cstdint>

#include "base/hd.h"
#include "numerics/formats.h"
#include "octet/types.hpp"

namespace octet {

/// Element `offset` of plain numbers or codes, exactly (f64: rounded to f32); 0 of a format that holds
/// neither.
OCTET_HD float number_at(const void* data, DType dtype, std::int64_t offset) {
  switch (dtype) {
    case DType::f32:
      return static_cast<const float*>(data)[offset];
    case DType::f16:
      return f32_from_f16(static_cast<const std::uint16_t*>(data)[offset]);
    case DType::bf16:
      return f32_from_bf16(static_cast<const std::uint16_t*>(data)[offset]);
    case DType::e4m3:
      return f32_from_e4m3(static_cast<const std::uint8_t*>(data)[offset]);
    case DType::e5m2:
      return f32_from_e5m2(static_cast<const std::uint8_t*>(data)[offset]);
    case DType::s8:
      return static_cast<const std::int8_t*>(data)[offset];
    case DType::f64:
      return static_cast<float>(static_cast<const double*>(data)[offset]);
    case DType::s4: {
      const std::uint8_t pair = static_cast<const std::uint8_t*>(data)[offset >> 1];
      return static_cast<float>((offset & 1) ? s4_high(pair) : s4_low(pair));
    }
    default:
      return 0;
  }
}

}  // namespace octet
