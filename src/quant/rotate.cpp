#include "quant/rotate.h"

#include <bit>
#include <cmath>

#include "quant/quantize.h"
#include "quant/row_kernels.h"

namespace octet::quant {
namespace {

// Fewer channels than this in a Hadamard block spread an outlier too little: pad instead.
constexpr std::int64_t kSmallestBlock = 16;

std::int64_t largest_power_of_two_in(std::int64_t n) { return n & -n; }

// Strides 1 and 2 together: their inner loops are too short for vectors.
void first_two_stages(float* x, std::int64_t block) {
  for (std::int64_t i = 0; i < block; i += 4) {
    const float a = x[i] + x[i + 1], b = x[i] - x[i + 1];
    const float c = x[i + 2] + x[i + 3], d = x[i + 2] - x[i + 3];
    x[i] = a + c;
    x[i + 1] = b + d;
    x[i + 2] = a - c;
    x[i + 3] = b - d;
  }
}

// One block of the butterfly, in place.
void butterfly(float* x, std::int64_t block) {
  std::int64_t stride = 1;
  if (block >= 4) {
    first_two_stages(x, block);
    stride = 4;
  }
  for (; stride < block; stride *= 2) {
    for (std::int64_t base = 0; base < block; base += 2 * stride) {
      float* low = x + base;
      float* high = low + stride;
      for (std::int64_t i = 0; i < stride; ++i) {
        const float a = low[i], b = high[i];
        low[i] = a + b;
        high[i] = a - b;
      }
    }
  }
}

}  // namespace

std::int64_t rotated_dim(std::int64_t dim) {
  if (dim < kSmallestBlock) {
    return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(dim > 0 ? dim : 1)));
  }
  return (dim + kSmallestBlock - 1) / kSmallestBlock * kSmallestBlock;
}

std::int64_t rotation_block(std::int64_t dim) { return largest_power_of_two_in(rotated_dim(dim)); }

float rotation_norm(std::int64_t block) {
  // Double square root and division, then one rounding: the nearest float for every power of two.
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(block)));
}

float rotation_sign(std::uint64_t seed, std::int64_t channel) {
  std::uint64_t z = seed + (static_cast<std::uint64_t>(channel) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return z >> 63 ? -1.0f : 1.0f;
}

Rotation::Rotation(std::int64_t dim, std::uint64_t seed)
    : block_(rotation_block(dim)),
      factor_(static_cast<std::size_t>(rotated_dim(dim))),
      norm_(factor_.size(), rotation_norm(block_)),
      sign_(factor_.size()) {
  for (std::size_t c = 0; c < factor_.size(); ++c) {
    sign_[c] = rotation_sign(seed, static_cast<std::int64_t>(c));
    factor_[c] = sign_[c] * norm_[c];
  }
}

void Rotation::forward(float* row) const {
  const std::int64_t channels = static_cast<std::int64_t>(factor_.size());
  for (std::int64_t c = 0; c < channels; ++c) row[c] *= factor_[static_cast<std::size_t>(c)];
  for (std::int64_t c = 0; c < channels; c += block_) butterfly(row + c, block_);
}

void Rotation::inverse(float* row) const {
  const std::int64_t channels = static_cast<std::int64_t>(factor_.size());
  row_kernels().read({row, DType::f32, channels, 1, channels}, {nullptr, norm_.data(), block_},
                     {row, channels, channels}, nullptr);
  for (std::size_t c = 0; c < sign_.size(); ++c) row[c] *= sign_[c];
}

}  // namespace octet::quant
