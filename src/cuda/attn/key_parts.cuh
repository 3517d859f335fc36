// Rows whose keys are cut in two parts, a warp each, for calls so short that a warp's path is what they take:
// each warp leaves what it has of the rows, and then makes the ends of half of their channels from both.
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

/// What one warp has of its sixteen rows: outputs, four of a lane together, and the rows' states.
template <MergesParts S, int kTiles>
struct PartOfRows {
  static constexpr int kRows = 16, kLanes = 32;
  struct alignas(16) Four {
    typename S::Out of[4];
  };
  struct Row {
    typename S::State state;
    std::int32_t blocks_seen;
  };
  Four out[kTiles][kLanes];
  alignas(16) Row row[kRows];

  __device__ __forceinline__ void put(const Outputs<S, kTiles>& outputs,
                                      const LaneRow<S> (&rows)[kRowsALane]) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      Four four;
#pragma unroll
      for (int e = 0; e < 4; ++e) four.of[e] = outputs.at(i, e);
      out[i][lane] = four;
    }
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      if (lane % 4 == 0) row[lane / 4 + 8 * r] = {rows[r].state, rows[r].blocks_seen};
  }
};

/// Of all warps that share rows, in the order of their keys; nothing where one has all keys.
template <class S, int kTiles, int kParts>
struct PartsOfRows {};
template <MergesParts S, int kTiles>
struct PartsOfRows<S, kTiles, 2> {
  PartOfRows<S, kTiles> of[2];
};

/// Two parts of a lane's rows, merged in the order of their keys. A part that saw no key has the sums 0 and a
/// maximum below all others, so that it adds nothing to one that did.
template <MergesParts S, int kTiles>
class MergedRows {
 public:
  /// rows: their states and what they saw become those of both parts.
  __device__ __forceinline__ MergedRows(const PartsOfRows<S, kTiles, 2>& parts,
                                        LaneRow<S> (&rows)[kRowsALane])
      : parts_(parts) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const auto& row = parts.of[part].row[lane / 4 + 8 * r];
        state_[part][r] = row.state, seen_[part][r] = row.blocks_seen;
      }
      rows[r].state = !seen_[0][r]   ? state_[1][r]
                      : !seen_[1][r] ? state_[0][r]
                                     : S::Merge::merge(state_[0][r], state_[1][r]);
      rows[r].blocks_seen = seen_[0][r] + seen_[1][r];
    }
  }

  /// The outputs of a tile.
  __device__ __forceinline__ typename PartOfRows<S, kTiles>::Four tile(int i) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    auto four = parts_.of[0].out[i][lane];
    const auto other = parts_.of[1].out[i][lane];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = e >> 1;
      auto both = four.of[e];
      S::Merge::merge_out(both, state_[0][r], other.of[e], state_[1][r]);
      four.of[e] = !seen_[0][r] ? other.of[e] : !seen_[1][r] ? four.of[e] : both;
    }
    return four;
  }

 private:
  const PartsOfRows<S, kTiles, 2>& parts_;
  typename S::State state_[2][kRowsALane];
  std::int32_t seen_[2][kRowsALane];
};

}  // namespace octet::cuda::attn
