// Tiles of query rows, as blocks of threads come to them.
#pragma once
#include <cstdint>

#include "cuda/attn/key_block.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/wgmma/order.h"

namespace octet::cuda::wgmma {

using namespace attn;

/// A tile of query rows: the first one, their head, and the sequences.
struct RowTile {
  std::int32_t begin, head;
  Sequence queries, keys;
};

/// kSharesOut: blocks of threads go from tile to tile; else each has one. kRows: of a full tile.
/// kMayHaveRanges: whether keys may be cut (cuda/ranges.h).
template <bool kSharesOut, int kRows, bool kMayHaveRanges>
class TileOrder {
 public:
  __device__ __forceinline__ TileOrder(const Call& call, const RowTiles& tiles)
      : call_(call), tiles_(tiles) {}

  __device__ __forceinline__ RowTile at(std::int32_t i) const {
    const TilePlace place = place_of_tile(tiles_, i);
    const std::int32_t entry = place.row / tiles_.heads, head = place.row - entry * tiles_.heads;
    if (call_.queries.cu_seqlens) return of_group(place.begin, head);
    return {place.begin, head, sequence_at(call_.queries, entry), sequence_at(call_.keys, entry)};
  }
  /// body(i) of the block of threads' tiles, one after the other; it returns i.
  template <class Body>
  __device__ __forceinline__ void each(const Body& body) const {
    std::int32_t i = static_cast<std::int32_t>(blockIdx.x);
    if constexpr (!kSharesOut) {
      body(i);
    } else {
#pragma unroll 1
      while (i < tiles_.count) i = body(i) + static_cast<std::int32_t>(gridDim.x);
    }
  }
  /// The number of the block of threads' tile i: where it has no other, anew, for no register has it through
  /// the loop of key blocks.
  static __device__ __forceinline__ std::int32_t again(std::int32_t i) {
    return kSharesOut ? i : static_cast<std::int32_t>(tile::kept(blockIdx.x));
  }
  __device__ __forceinline__ bool is_last(std::int32_t i) const {
    return !kSharesOut || i + static_cast<std::int32_t>(gridDim.x) >= tiles_.count;
  }
  /// Behind the own rows of tile i: others, which threads may compute beside them, are another tile's.
  __device__ __forceinline__ std::int32_t end_of(const RowTile& tile, std::int32_t i) const {
    return min(tile.queries.length, tile.begin + own_rows(tiles_, i, tile.begin));
  }
  /// Behind the rows that threads compute: of a first tile that lacks some all of a tile's. With warpgroups
  /// idle instead a call took longer (docs/cuda-measurements.md).
  __device__ __forceinline__ std::int32_t computed_end_of(const RowTile& tile, std::int32_t i) const {
    return tile.begin + query_rows_of(tiles_, i);
  }
  /// Key blocks that rows of tile i see, of them those in the block of threads' range. note: a range is made
  /// anew where it is asked for, and no register has it through the loop of key blocks.
  __device__ __forceinline__ KeyBlocks blocks_of(const RowTile& tile, std::int32_t i) const {
    KeyBlocks blocks(call_, Visibility{call_, tile.queries.length, tile.keys.length}, tile.keys,
                     tile.head / call_.group, tile.begin, own_rows(tiles_, i, tile.begin));
    if constexpr (kMayHaveRanges) {
      if (call_.has_ranges) [[unlikely]]
        blocks.keep(range_of(call_, visible_blocks(call_, tile.queries.length, tile.keys.length),
                             tile::kept(static_cast<std::int32_t>(blockIdx.z))));
    }
    return blocks;
  }

 private:
  /// Of packed sequences, which count as one: begin: were all groups of rows full.
  __device__ __forceinline__ RowTile of_group(std::int32_t begin, std::int32_t head) const {
    constexpr Divider rows(kRows);
    const std::int32_t group = begin / rows, index = sequence_of_group(call_.queries, group, rows);
    return {(group - first_group_bound(call_.queries, index, rows)) * kRows, head,
            sequence_at(call_.queries, index), sequence_at(call_.keys, index)};
  }

  const Call& call_;
  const RowTiles& tiles_;
};

}  // namespace octet::cuda::wgmma
