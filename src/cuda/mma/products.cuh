// The two products of a warp's sixteen rows, from tiles in shared memory.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/swizzle.cuh"

namespace octet::cuda::mma {

/// Two tiles of eight columns of operand B, 32 bytes of the summed axis: word [column tile][half].
template <int kRowBytes>
__device__ __forceinline__ void load_columns(std::uint32_t (&b)[4], std::uint32_t tile, int pair, int step) {
  const int lane = threadIdx.x % 32;
  const int row = pair * 16 + (lane & 7) + (lane >> 4) * 8;
  ptx::load_matrices(b, tile + tile::chunk_offset<kRowBytes>(row, 2 * step + (lane >> 3 & 1)));
}

/// acc = Q K^T of the warp's rows and all keys of the tile. q, k: shared addresses of tiles of rows of
/// kRowBytes; q_row: the warp's first.
template <Operand kOperand, int kRowBytes, int kTiles, class Acc>
__device__ __forceinline__ void multiply_qk(Acc (&acc)[kTiles][4], std::uint32_t q, int q_row,
                                            std::uint32_t k) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[i][e] = 0;
#pragma unroll
  for (int step = 0; step < kRowBytes / 32; ++step) {
    std::uint32_t a[4];
    ptx::load_matrices(a, q + tile::chunk_offset<kRowBytes>(q_row + (lane & 15), 2 * step + (lane >> 4)));
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      std::uint32_t b[4];
      load_columns<kRowBytes>(b, k, pair, step);
      const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      ptx::multiply<kOperand, kOperand>(acc[2 * pair], a, low);
      ptx::multiply<kOperand, kOperand>(acc[2 * pair + 1], a, high);
    }
  }
}

/// acc = P V of channels of tiles first ... first + kTiles - 1. v: shared address of rows of channels,
/// kRowBytes of slots each.
template <Operand kP, Operand kV, int kRowBytes, int kTiles, int kSteps, class Acc>
__device__ __forceinline__ void multiply_pv(Acc (&acc)[kTiles][4], const std::uint32_t (&p)[kSteps][4],
                                            std::uint32_t v, int first) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[i][e] = 0;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      std::uint32_t b[4];
      load_columns<kRowBytes>(b, v, first / 2 + pair, step);
      const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      ptx::multiply<kP, kV>(acc[2 * pair], p[step], low);
      ptx::multiply<kP, kV>(acc[2 * pair + 1], p[step], high);
    }
  }
}

}  // namespace octet::cuda::mma
