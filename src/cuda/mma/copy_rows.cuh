// Rows of a tile from global to shared memory, by all threads of a block that share keys, without waiting.
#pragma once
#include <cstdint>

#include "cuda/mma/tile.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/lane.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/swizzle.cuh"
#include "cuda/tile/threads.cuh"

namespace octet::cuda::mma {

/// What rows of a tile hold behind those that there are: what they held before, or zeros.
enum class Behind { as_it_was, zeros };

/// Copies of tiles of at most kRows rows of kRowBytes, by at most kWarps warps. A warp copies eight rows or
/// more at a time, after which the places of chunks repeat: what a thread adds from turn to turn is the same.
template <int kRowBytes, int kRows, int kWarps>
class RowCopy {
 public:
  /// From the first row in global memory to what the thread copies first. row_bytes: from a row to the next.
  static __device__ __forceinline__ std::int64_t offset(std::int64_t row_bytes) {
    const std::uint32_t thread = tile::kept(threadIdx.x);
    return thread / kTogether * row_bytes + thread % kTogether * 16;
  }
  /// Where the thread's first chunk lies in a tile.
  static __device__ __forceinline__ std::uint32_t place() {
    const int thread = static_cast<int>(threadIdx.x);
    return tile::chunk_offset<kRowBytes>(thread / kTogether, thread % kTogether);
  }

  /// rows: that there are. to, from: the thread's own, in shared and in global memory.
  template <Behind kBehind = Behind::as_it_was>
  static __device__ __forceinline__ void copy(std::uint32_t to, const std::byte* from, std::int64_t row_bytes,
                                              int rows) {
    constexpr int kFullTurn = kWarps * kRowsATurn, kTurns = (kRows + kFullTurn - 1) / kFullTurn;
    const int threads = ptx::threads_along_x(), own = static_cast<int>(threadIdx.x / kTogether);
    if (threads == kWarps * 32) [[likely]] {
      const bool all = kRows % kFullTurn == 0 && rows == kRows;
      const int left = rows - own;
#pragma unroll
      for (int i = 0; i < kTurns; ++i) {
        const bool exists = all || left > i * kFullTurn;
        if constexpr (kBehind == Behind::as_it_was) {
          if (exists) copy_row(to + i * kFullTurn * kRowBytes, from);
        } else if (kRows % kFullTurn == 0 || i + 1 < kTurns || own + i * kFullTurn < kRows) {
          copy_row_or_zeros(to + i * kFullTurn * kRowBytes, from, exists);
        }
        from += kFullTurn * row_bytes;
      }
    } else {
      // Few warps: four turns at a time, for their addresses' sake. note: steps are made here, where the
      // compiler would keep them through the loop of key blocks.
      constexpr int kSome = 4;
      const int turn = threads / kTogether;
      const std::int64_t step = turn * tile::kept(row_bytes);
      const int lacking = kBehind == Behind::as_it_was ? 0 : kRows - rows;  // which become zeros
#pragma unroll 1
      for (int left = rows - own; left + lacking > 0; left -= kSome * turn) {
#pragma unroll
        for (int i = 0; i < kSome; ++i) {
          if constexpr (kBehind == Behind::as_it_was) {
            if (left > i * turn) copy_row(to, from);
          } else {
            if (left + lacking > i * turn) copy_row_or_zeros(to, from, left > i * turn);
          }
          to += turn * kRowBytes, from += step;
        }
      }
    }
  }

 private:
  static constexpr int kChunks = kRowBytes / 16, kTogether = kChunks < 4 ? kChunks : 4;  // beside each other
  static constexpr int kRowsATurn = 32 / kTogether;                                      // of a warp

  static __device__ __forceinline__ void copy_row(std::uint32_t to, const std::byte* from) {
#pragma unroll
    for (int i = 0; i < kChunks; i += kTogether) ptx::copy_async(to ^ (i * 16), from + i * 16);
  }
  static __device__ __forceinline__ void copy_row_or_zeros(std::uint32_t to, const std::byte* from,
                                                           bool exists) {
#pragma unroll
    for (int i = 0; i < kChunks; i += kTogether)
      ptx::copy_async_or_zeros(to ^ (i * 16), from + i * 16, exists ? 16 : 0);
  }
};

/// Bytes that lie together, a multiple of 16.
template <int kBytes>
__device__ __forceinline__ void copy_bytes(std::uint32_t to, const std::byte* from) {
  const int step = ptx::threads_along_x() * 16;
  for (int i = static_cast<int>(threadIdx.x) * 16; i < kBytes; i += step) ptx::copy_async(to + i, from + i);
}

}  // namespace octet::cuda::mma
