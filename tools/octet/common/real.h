// The value of one element of a tensor, in double's or float's exact reach.
#pragma once
#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>

#include "io/host_tensor.h"
#include "octet/types.hpp"

namespace octet::tool {

/// IEEE half to single, exact; NaN and infinities keep their kind.
inline float real_of_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // The 15 bits moved to a float's place are the value times 2^-112 (the biases are 15 and 127): subnormals
  // too.
  const float magnitude = std::bit_cast<float>(rest << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// Element `i` of f64, f32, f16, bf16 or s8 data.
inline double real_at(const void* data, DType dtype, std::int64_t i) {
  const auto load = [&](auto value) {
    std::memcpy(&value, static_cast<const std::byte*>(data) + i * static_cast<std::int64_t>(sizeof value),
                sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::f64:
      return load(double{});
    case DType::f32:
      return static_cast<double>(load(float{}));
    case DType::f16:
      return static_cast<double>(real_of_f16(load(std::uint16_t{})));
    case DType::bf16:
      return static_cast<double>(
          std::bit_cast<float>(static_cast<std::uint32_t>(load(std::uint16_t{})) << 16));
    case DType::s8:
      return static_cast<double>(load(std::int8_t{}));
    default:
      assert(!"only number formats and s8 are read as reals");
      return 0;
  }
}

inline float real_at(const HostTensor& tensor, std::int64_t i) {
  return static_cast<float>(real_at(tensor.bytes.data(), tensor.dtype, i));
}

}  // namespace octet::tool
