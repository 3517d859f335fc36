// Where a 16-byte chunk of a row lies in a tile of shared memory, so that the eight rows that one step of
// ldmatrix reads lie in different banks.
#pragma once
#include <cstdint>

namespace octet::cuda::tile {

/// Bytes from the tile's begin. kRowBytes: 32, 64, 128, 256 or 512, all a row has.
template <int kRowBytes>
__device__ __forceinline__ constexpr std::uint32_t chunk_offset(int row, int chunk) {
  static_assert(kRowBytes >= 32 && (kRowBytes & (kRowBytes - 1)) == 0,
                "rows are powers of two of 32 bytes and more");
  constexpr int kLine = 128;  // bytes that all banks hold
  constexpr int kChunks = kRowBytes < kLine ? kRowBytes / 16 : kLine / 16;
  constexpr int kRowsALine = kRowBytes < kLine ? kLine / kRowBytes : 1;
  return static_cast<std::uint32_t>(row * kRowBytes + ((chunk ^ ((row / kRowsALine) & (kChunks - 1))) * 16));
}

}  // namespace octet::cuda::tile
