// Rows of 16-bit numbers in segments of a lane each, on their way to codes: what is done to them, and how the
// stored words of one become f32, ready for the butterfly or for codes.
#pragma once
#include <cstdint>

#include "cuda/quant/row_space.cuh"

namespace octet::cuda {

/// What is done to rows before they become codes.
enum class Work { multiplied, rotated, shifted_and_rotated };

/// The sign bits of channels that the rotation turns around, two in a word as 16-bit numbers lie.
template <class Shape>
struct Signs {
  uint4 flips[Shape::kDim / kChannels] = {};

  Signs() = default;
  explicit Signs(const RowReading& rows) {
    if (rows.hadamard == 0) return;
    const auto pair = [&](int c) {
      const auto bit = [&](int channel, int at) {
        return (rows.sign[channel / kWarp] >> channel % kWarp & 1u) << at;
      };
      return bit(c, 15) | bit(c + 1, 31);
    };
    for (int c = 0; c < Shape::kDim; c += kChannels)
      flips[c / kChannels] = {pair(c), pair(c + 2), pair(c + 4), pair(c + 6)};
  }
};

/// Eight channels of a row: v = x times its word, or x (less its word) times the rotation's norm and sign.
/// flips, words: of these channels. The words of shifts are turned around where the channel is, for
/// -x - -shift is -(x - shift). note: where both are the same the difference is +0 and not -0, which no code
/// and no scale shows.
template <Work kWork, DType kType>
__device__ void eight_numbers(uint4 stored, const uint4& flips, const float4* words, float norm, float* v) {
  if constexpr (kWork != Work::multiplied)
    stored = {stored.x ^ flips.x, stored.y ^ flips.y, stored.z ^ flips.z, stored.w ^ flips.w};
  Raw<std::uint16_t> raw;
  raw.v[0] = stored;
  to_floats(raw, kType, v);
  const auto with_words = [&](const auto& use) {
#pragma unroll
    for (int i = 0; i < kChannels; i += 4) {
      const float4 word = words[i / 4];
      use(v[i], word.x), use(v[i + 1], word.y), use(v[i + 2], word.z), use(v[i + 3], word.w);
    }
  };
  if constexpr (kWork == Work::shifted_and_rotated) with_words([](float& x, float shift) { x = x - shift; });
  if constexpr (kWork == Work::multiplied) {
    with_words([](float& x, float factor) { x = x * factor; });
  } else {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) v[i] = v[i] * norm;
  }
}

}  // namespace octet::cuda
