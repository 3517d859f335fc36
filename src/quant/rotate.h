// Rotation of Q and K: random signs, then a Hadamard transform. Orthogonal, so Q.K stays what it was, and an
// outlier in one channel is spread over its block.
#pragma once
#include <cstdint>
#include <vector>

namespace octet::quant {

/// Channels of each Hadamard block of a tensor with `dim` channels: the largest power of two that divides
/// rotated_dim(dim) (quantize.h). 64 -> 64, 80 -> 16, 96 -> 32, 20 (padded to 32) -> 32, 7 (padded to 8)
/// -> 8.
std::int64_t rotation_block(std::int64_t dim);

/// The float nearest to 1 / sqrt(block).
float rotation_norm(std::int64_t block);

/// The sign of channel c: bit 63 of the (c + 1)-th number of splitmix64 started at `seed`, that is of the
/// mix of seed + (c + 1) * 0x9e3779b97f4a7c15; a set bit means -1. The same for all heads and both operands.
/// Source of the mix: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
float rotation_sign(std::uint64_t seed, std::int64_t channel);

/// y = H S x / sqrt(block) within each block of channels, in f32 by correctly rounded operations only:
/// 1. x_c times the float nearest to 1/sqrt(block), signed. First, so that |x| <= 2^120 stays finite; exact
///    where block is a power of four.
/// 2. the butterfly, strides 1, 2, 4, ..., block / 2: (a, b) -> (a + b, a - b), a the one at the lower index.
/// The inverse is x = S H y / sqrt(block), with the multiplication by 1/sqrt(block) again first and the sign
/// last.
class Rotation {
 public:
  Rotation(std::int64_t dim, std::uint64_t seed);

  /// Step 1's factors, a channel each, and the channels of a block: what the row kernels need for the same.
  const float* factors() const { return factor_.data(); }
  std::int64_t block() const { return block_; }

  /// row: rotated_dim(dim) floats, of which those from dim on must be zero. In place.
  void forward(float* row) const;

  /// row: rotated_dim(dim) floats; the real values are the first dim of them. In place.
  void inverse(float* row) const;

 private:
  std::int64_t block_;
  std::vector<float> factor_;       // +-norm, a channel; norm = 1 / sqrt(block)
  std::vector<float> norm_, sign_;  // the same of all channels, and +-1
};

}  // namespace octet::quant
