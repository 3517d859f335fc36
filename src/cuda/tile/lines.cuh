// Tiles in shared memory as wgmma reads them: rows cut in lines of up to 128 bytes, all first lines one after
// the other, then all second ones, chunks of 16 bytes in other places from row to row so that eight rows lie
// in all banks. A line of 64 or 128 bytes lies as one of tile/swizzle.cuh does (PTX ISA, "Shared memory
// matrix layout").
#pragma once
#include <cstdint>

#include "cuda/tile/swizzle.cuh"

namespace octet::cuda::tile {

/// kRows rows of kRowBytes each; the tile begins at a multiple of 1024.
template <int kRowBytes, int kRows>
struct Lines {
  static constexpr int kLine = kRowBytes < 128 ? kRowBytes : 128, kOfRow = kRowBytes / kLine;
  static constexpr int kLineBytes = kRows * kLine;
  static_assert(kLine == 64 || kLine == 128, "lines that have a pattern of the matrix units");
  static_assert(kRowBytes % kLine == 0, "whole lines");

  /// Bytes from the tile's begin of a row's chunk of 16 bytes.
  static __device__ __forceinline__ constexpr std::uint32_t offset(int row, int chunk) {
    constexpr int kChunks = kLine / 16;
    return static_cast<std::uint32_t>(chunk / kChunks * kLineBytes) +
           chunk_offset<kLine>(row, chunk % kChunks);
  }

  /// What tells the matrix units of a tile: the low word, of which tiles have their own, to which a row, a
  /// multiple of 8, and a step of 32 bytes of the summed axis add what step() says; and the high word.
  static __device__ __forceinline__ std::uint32_t low_word(std::uint32_t tile) {
    return tile / kUnit | std::uint32_t{1} << 16;
  }
  static __device__ __forceinline__ constexpr std::uint32_t step(int row, int step) {
    constexpr int kSteps = kLine / 32;
    return static_cast<std::uint32_t>(row * kLine + step / kSteps * kLineBytes + step % kSteps * 32) / kUnit;
  }
  static __device__ __forceinline__ std::uint64_t descriptor(std::uint32_t low) {
    return std::uint64_t{kHighWord} << 32 | low;
  }
  static constexpr std::uint32_t kUnit = 16;  ///< bytes

 private:
  // From eight rows to the next eight; the pattern's number. What would stand in the low word is not read of
  // such tiles, but of those that are turned.
  static constexpr std::uint32_t kHighWord =
      std::uint32_t{8 * kLine / kUnit} | std::uint32_t{kLine == 128 ? 1 : 2} << 30;
};

/// The same whose rows are the summed axis: columns of B as the matrix units turn them around, of elements of
/// 16 bits, 64 a line.
template <int kRowBytes, int kRows>
struct TurnedLines : Lines<kRowBytes, kRows> {
  using Base = Lines<kRowBytes, kRows>;
  static_assert(Base::kLine == 128, "a line has as many columns as the smallest product");

  /// From lines of the first 64 columns to those of the next.
  static __device__ __forceinline__ std::uint32_t low_word(std::uint32_t tile) {
    return tile / Base::kUnit | std::uint32_t{Base::kLineBytes / Base::kUnit} << 16;
  }
  /// column: a multiple of 64; a step is of sixteen rows.
  static __device__ __forceinline__ constexpr std::uint32_t step(int column, int step) {
    return static_cast<std::uint32_t>(column / 64 * Base::kLineBytes + step * 16 * Base::kLine) / Base::kUnit;
  }
};

}  // namespace octet::cuda::tile
