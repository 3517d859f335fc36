// The codes of a window and their scales, where the attention kernel of the same block of threads reads them:
// Q and K as rows in their tiles, V dim-major in key order, or as rows of numbers.
#pragma once
#include <cstdint>

#include "cuda/mma/tile.h"
#include "cuda/quant/packed_values.cuh"
#include "cuda/quant/window.cuh"
#include "cuda/quant/window_out.cuh"
#include "cuda/tile/swizzle.cuh"

namespace octet::cuda::window {

/// The operands of a window.
enum class Of : std::int32_t { k, v, q };
inline constexpr int kOperands = 3;

/// What an operand's codes are multiplied by: `scales` of its rows, or of all of them: of channels, or all
/// the same. exponents: of channels, 0 where it is not equalised.
struct Scales {
  float scales[kMostWindowTokens];
  std::int32_t exponents[WindowShape::kDim];
};

/// WindowOut of a warp that has an operand of the block of threads.
class ToTiles {
 public:
  static constexpr int kRowBytes = WindowShape::kDim, kSlots = kMostWindowTokens,
                       kNumbersRow = WindowShape::kDim * 2;

  /// tile: shared address of the operand's tile, at a multiple of 128.
  __device__ ToTiles(Of of, std::uint32_t tile, Scales& scales) : of_(of), tile_(tile), scales_(scales) {}

  __device__ static int lane() { return static_cast<int>(threadIdx.x % kWarp); }
  __device__ void mean(float) const {}  // no LSE is asked for, which would get it back
  __device__ void exponent(std::int32_t exponent) const { scales_.exponents[lane()] = exponent; }
  __device__ void scale_of_window(float scale, bool) const { scales_.scales[lane()] = scale; }
  __device__ void scale_of_row(int first, float scale) const { scales_.scales[first + lane()] = scale; }
  /// Those of V stay in the lines until the warp has its rows' there.
  __device__ __forceinline__ void codes(const float (&v)[WindowShape::kDim], float rscale, int first,
                                        std::uint32_t lines) const {
    if (of_ == Of::v) {
      WindowCodes::put(v, rscale, lane(), lines);
      return;
    }
#pragma unroll
    for (int i = 0; i < WindowCodes::kPieces; ++i)
      ptx::store_shared_16_bytes(tile_ + tile::chunk_offset<kRowBytes>(first + lane(), i),
                                 WindowCodes::piece_of(v, rscale, i));
  }
  /// V's codes of 32 rows, of which so many are keys, from their lines to the tile, zeros behind the last
  /// key; of the warp.
  __device__ __forceinline__ void turn(int first, int keys, std::uint32_t lines) const {
#pragma unroll
    for (int piece = 0; piece < WindowCodes::kPieces; ++piece) {
      const auto row = [&](int key) { return lines + WindowCodes::place(key, piece); };
      turn_codes<kWarp / kSquare>(row, keys, [&](int square, int c, std::uint32_t word) {
        const int channel = piece * kSquare + lane() / 4 * 2 + c;
        ptx::store_shared_word(
            tile_ + tile::chunk_offset<kSlots>(channel, first / kSquare + square) + lane() % 4 * 4, word);
      });
    }
  }

  /// V's numbers of 32 rows as they are, of which so many are keys, from their lines to a tile of f16, zeros
  /// behind the last key; of the warp. bf16 become f16.
  __device__ __forceinline__ void numbers(int first, int keys, std::uint32_t lines, DType dtype) const {
#pragma unroll
    for (int piece = 0; piece < kNumbersRow / 16; ++piece) {
      uint4 eight = ptx::load_shared_16_bytes(lines + code_place(lane(), piece));
      if (dtype == DType::bf16)
        eight = {ptx::f16_pair_of_bf16(eight.x), ptx::f16_pair_of_bf16(eight.y),
                 ptx::f16_pair_of_bf16(eight.z), ptx::f16_pair_of_bf16(eight.w)};
      if (lane() >= keys) eight = {};
      ptx::store_shared_16_bytes(tile_ + tile::chunk_offset<kNumbersRow>(first + lane(), piece), eight);
    }
  }

 private:
  const Of of_;
  const std::uint32_t tile_;
  Scales& scales_;
};

}  // namespace octet::cuda::window
