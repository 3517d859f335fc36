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

/// The two parts of a lane's row, in the order of their keys. One that saw no key adds nothing.
template <MergesParts S>
class MergedRow {
 public:
  /// before, after: what the parts have of the row.
  __device__ __forceinline__ MergedRow(const StateOfRow<S>& before, const StateOfRow<S>& after)
      : before_(before.state),
        after_(after.state),
        saw_before_(before.blocks_seen > 0),
        saw_after_(after.blocks_seen > 0) {}

  __device__ __forceinline__ typename S::State state() const {
    return !saw_before_ ? after_ : !saw_after_ ? before_ : S::Merge::merge(before_, after_);
  }
  __device__ __forceinline__ typename S::Out out(typename S::Out before, typename S::Out after) const {
    auto both = before;
    S::Merge::merge_out(both, before_, after, after_);
    return !saw_before_ ? after : !saw_after_ ? before : both;
  }

 private:
  typename S::State before_, after_;
  bool saw_before_, saw_after_;
};

}  // namespace octet::cuda::attn
