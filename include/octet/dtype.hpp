// What is said of a tensor: its dtype's name and size, its shape in words. All in the header, for whoever
// reads tensor files without the library.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "octet/types.hpp"

namespace octet {

/// By the value of DType.
inline constexpr std::array<const char*, 11> kDTypeNames = {"f32", "f16",  "bf16", "f64", "s8",     "u8",
                                                            "s4",  "e4m3", "e5m2", "s32", "boolean"};
inline constexpr std::array<int, 11> kDTypeBits = {32, 16, 16, 64, 8, 8, 4, 8, 8, 32, 8};

/// "bf16"; "unknown (17)" for a number that is no dtype, so that it can stand in a message.
inline std::string dtype_name(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kDTypeNames.size() ? kDTypeNames[i]
                                : "unknown (" + std::to_string(static_cast<std::int32_t>(dtype)) + ")";
}

/// Bits of an element; 0 for no dtype.
constexpr int dtype_bits(DType dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kDTypeBits.size() ? kDTypeBits[i] : 0;
}

/// "[2, 3]"
inline std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace octet
