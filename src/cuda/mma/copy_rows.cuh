// Rows of a tile from global to shared memory, by all threads of a block that share keys, without waiting.
#pragma once
#include <cstdint>

#include "cuda/mma/tile.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/swizzle.cuh"

namespace octet::cuda::mma {

/// Copies of tiles of at most kRows rows of kRowBytes, by at most kWarps warps. A warp copies eight rows or
/// more at a time, after which the places of chunks repeat: what a thread adds from turn to turn is the same.
template <int kRowBytes, int kRows, int kWarps>
class RowCopy {
 public:
  /// row_bytes: from a row in global memory to the next.
  __device__ __forceinline__ explicit RowCopy(std::int64_t row_bytes) : row_bytes_(row_bytes) {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    const int row = warp * kRowsATurn + lane / kTogether, chunk = lane % kTogether;
    to_ = tile::kept(tile::chunk_offset<kRowBytes>(row, chunk));
    from_ = tile::kept(row * row_bytes + chunk * 16);
  }

  /// rows: that there are. to: shared address of the tile, a multiple of kRowBytes.
  __device__ __forceinline__ void operator()(std::uint32_t to, const std::byte* from, int rows) const {
    constexpr int kFullTurn = kWarps * kRowsATurn, kTurns = (kRows + kFullTurn - 1) / kFullTurn;
    const int turn = static_cast<int>(blockDim.x / 32) * kRowsATurn;
    to += to_, from += from_;
    if (turn == kFullTurn) [[likely]] {
      const bool all = kRows % kFullTurn == 0 && rows == kRows;
      const int left = rows - static_cast<int>(threadIdx.x / kTogether);
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        if (all || left > i * kFullTurn) copy(to + i * kFullTurn * kRowBytes, from);
        from += kFullTurn * row_bytes_;
      }
    } else {
      // Few warps: four turns at a time, for their addresses' sake.
      constexpr int kSome = 4;
      const std::int64_t step = turn * row_bytes_;
#pragma unroll 1
      for (int left = rows - static_cast<int>(threadIdx.x / kTogether); left > 0; left -= kSome * turn) {
#pragma unroll
        for (int i = 0; i < kSome; ++i) {
          if (left > i * turn) copy(to, from);
          to += turn * kRowBytes, from += step;
        }
      }
    }
  }

 private:
  static constexpr int kChunks = kRowBytes / 16, kTogether = kChunks < 4 ? kChunks : 4;  // beside each other
  static constexpr int kRowsATurn = 32 / kTogether;                                      // of a warp

  static __device__ __forceinline__ void copy(std::uint32_t to, const std::byte* from) {
#pragma unroll
    for (int i = 0; i < kChunks; i += kTogether) ptx::copy_async(to ^ (i * 16), from + i * 16);
  }

  std::int64_t row_bytes_, from_;
  std::uint32_t to_;
};

/// Bytes that lie together, a multiple of 16.
template <int kBytes>
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const std::byte* from) {
  for (int i = static_cast<int>(threadIdx.x) * 16; i < kBytes; i += static_cast<int>(blockDim.x) * 16)
    ptx::copy_async(to + i, from + i);
}

}  // namespace octet::cuda::mma
