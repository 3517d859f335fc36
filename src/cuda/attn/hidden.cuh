// Which scores of a key block a lane's rows do not see, and what a bias adds to the others.
#pragma once
#include <cstdint>

#include "cuda/attn/lane_rows.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/tile/quad.cuh"

namespace octet::cuda::attn {

/// Which numbers of a lane's fragments belong to hidden keys, a bit each; none by default.
struct Hidden {
  std::uint64_t bits = 0;
  __device__ __forceinline__ bool at(int tile, int e) const { return (bits >> (tile * 4 + e) & 1) != 0; }
};

/// Bits of the tiles before number n, four each, and one of each.
__device__ __forceinline__ std::uint64_t tiles_before(int n) {
  return n >= 16 ? ~std::uint64_t{0} : (std::uint64_t{1} << (4 * max(n, 0))) - 1;
}
inline constexpr std::uint64_t kOneATile = 0x1111111111111111;

/// Bits of the keys behind the block's end, of which there are `keys`: the same for all rows.
template <int kTiles>
__device__ __forceinline__ Hidden hidden_by_end(std::int32_t keys) {
  static_assert(kTiles <= 16, "one bit a number of a fragment says whether its key is hidden");
  std::uint64_t visible = 0;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    // The lane's columns are 8 i + column: those that there are end before tile ceil((keys - column) / 8).
    const int column = static_cast<int>(threadIdx.x % 4) * 2 + c;
    visible |= (tiles_before((keys - column + 7) >> 3) & kOneATile) << c;
  }
  return {~(visible | visible << 2)};
}

/// Bits of the keys that causality, a window or the block's end hide; says which rows see one. The block's
/// keys are numbers begin ... begin + keys - 1 of the sequence.
template <class S, int kTiles>
__device__ __forceinline__ Hidden hidden_by_range(const Visibility& visibility, std::int32_t begin,
                                                  std::int32_t keys, LaneRow<S> (&rows)[kRowsALane]) {
  static_assert(kTiles <= 16, "one bit a number of a fragment says whether its key is hidden");
  std::uint64_t visible = 0;
#pragma unroll
  for (int r = 0; r < kRowsALane; ++r) {
    const KeyRange range = visibility.of(rows[r].token);
    const std::int32_t first = max(range.begin - begin, 0);
    const std::int32_t end = min(range.end - begin, keys);
    rows[r].sees = first < end;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      // The lane's columns are 8 i + column: those from `first` on begin at tile ceil((first - column) / 8).
      const int column = static_cast<int>(threadIdx.x % 4) * 2 + c;
      const std::uint64_t of_column =
          tiles_before((end - column + 7) >> 3) & ~tiles_before((first - column + 7) >> 3);
      visible |= (of_column & kOneATile) << (2 * r + c);
    }
  }
  return {~visible};
}

/// What a bias adds to the scores of a block, and the keys that it hides; says which rows see one. Made in a
/// loop that is not unrolled, for what it asks of each key is long. added: anything for hidden keys.
template <class S, int kTiles>
__device__ __forceinline__ Hidden biases_of(typename S::Bias (&added)[kTiles * 4], const S& scheme,
                                            const HeadBias& bias, const Visibility& visibility,
                                            std::int32_t begin, std::int32_t keys,
                                            LaneRow<S> (&rows)[kRowsALane]) {
  Hidden hidden = hidden_by_range<S, kTiles>(visibility, begin, keys, rows);
  bool any[kRowsALane] = {};
#pragma unroll 1
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (hidden.at(i, e)) continue;
      const std::int32_t j = begin + i * 8 + static_cast<int>(threadIdx.x % 4) * 2 + (e & 1);
      const float b = bias.at(rows[e >> 1].token, j);
      const bool hides = b == kMinusInfinity;
      added[i * 4 + e] = scheme.bias(hides ? 0 : b);
      hidden.bits |= static_cast<std::uint64_t>(hides) << (i * 4 + e);
      any[e >> 1] |= !hides;
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsALane; ++r)
    rows[r].sees = tile::over_quad(std::int32_t{any[r]}, tile::Larger{}) != 0;
  return hidden;
}

}  // namespace octet::cuda::attn
