// The two products of attention over decoded rows. Integer sums are exact; float sums have a fixed order:
// sixteen partial sums, then a tree, whatever the compiler makes of it.
#pragma once
#include <cstdint>
#include <type_traits>

#include "numerics/contract.h"

namespace octet::ref {

/// What a decoded operand is held in: 16 bits for 8-bit codes, so that a product of two codes fits its type.
template <Operand kOperand>
struct Held {
  using Type = std::conditional_t<is_float(kOperand), float, std::int16_t>;
};

/// |sum| <= 127 * 127 * 256 for d <= 256: fits int32 by far.
inline std::int32_t dot(const std::int16_t* a, const std::int16_t* b, std::int64_t count) {
  std::int32_t sum = 0;
  for (std::int64_t c = 0; c < count; ++c) sum += std::int32_t{a[c]} * b[c];
  return sum;
}

inline float dot(const float* a, const float* b, std::int64_t count) {
  constexpr int kParts = 16;
  float part[kParts] = {};
  std::int64_t c = 0;
  for (; c + kParts <= count; c += kParts) {
    for (int i = 0; i < kParts; ++i) part[i] += a[c + i] * b[c + i];
  }
  for (int i = 0; c + i < count; ++i) part[i] += a[c + i] * b[c + i];
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) part[i] += part[i + half];
  }
  return part[0];
}

/// sums[c] += p * v[c]. |p v| <= 255 * 127 < 2^15, so the product itself fits int16.
inline void accumulate(std::int32_t* sums, std::int16_t p, const std::int16_t* v, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) sums[c] += static_cast<std::int16_t>(p * v[c]);
}

inline void accumulate(float* sums, float p, const float* v, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) sums[c] += p * v[c];
}

}  // namespace octet::ref
