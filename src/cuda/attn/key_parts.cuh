// Rows whose keys are cut in two parts, a warp each, for calls so short that a warp's path is what they take:
// each warp leaves what it has of half of the rows for the other one, and ends the other half.
#pragma once
#include <cstdint>

#include "cuda/attn/outputs.cuh"

namespace octet::cuda::attn {

/// Schemes whose parts of rows may be merged, and whose lanes hold what these take.
template <class S>
concept MergesParts = requires {
  typename S::Merge;
}
&&!LongRows<S> && S::kOutput != Output::row_scale;

/// Schemes of whose rows' ranges of keys, each ended by itself, the outputs may be merged by their LSEs.
template <class S>
concept MergesRanges = !LongRows<S> && S::kOutput == Output::values;

/// What a warp knows of a row beside its outputs.
template <MergesParts S>
struct StateOfRow {
  typename S::State state;
  std::int32_t blocks_seen;
};

/// What one warp has of the eight rows that the other one ends, a row a lane: its outputs, two of each of two
/// tiles together, and the rows' states.
template <MergesParts S, int kTiles>
struct PartOfRows {
  static constexpr int kRows = 8, kLanes = 32;
  static_assert(kTiles % 2 == 0, "tiles go two by two");
  struct alignas(16) Four {
    typename S::Out of[4];
  };
  Four out[kTiles / 2][kLanes];
  alignas(16) StateOfRow<S> row[kRows];

  /// The lane's row number kRow of `outputs`.
  template <int kRow>
  __device__ __forceinline__ void put(const Outputs<S, kTiles>& outputs, const LaneRow<S>& of) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kTiles; i += 2)
      out[i / 2][lane] = {outputs.at(i, 2 * kRow), outputs.at(i, 2 * kRow + 1), outputs.at(i + 1, 2 * kRow),
                          outputs.at(i + 1, 2 * kRow + 1)};
    if (lane % 4 == 0) row[lane / 4] = {of.state, of.blocks_seen};
  }
};

/// Of both warps that share rows; nothing where one has all keys.
template <class S, int kTiles, int kParts>
struct PartsOfRows {};
template <MergesParts S, int kTiles>
struct PartsOfRows<S, kTiles, 2> {
  PartOfRows<S, kTiles> of[2];
};

}  // namespace octet::cuda::attn
