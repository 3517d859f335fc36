// The two products of a warp's sixteen rows, from tiles in shared memory.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/swizzle.cuh"

namespace octet::cuda::mma {

template <int kTiles, class Acc>
__device__ __forceinline__ void set_all(Acc (&acc)[kTiles][4], Acc start) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[i][e] = start;
}

/// A lane's place in tiles of rows of kRowBytes, of which ldmatrix reads sixteen rows and 32 bytes at a time.
/// Steps along a row change bits within it alone: a place is moved by an exclusive or.
template <int kRowBytes>
class Place {
 public:
  /// As operand A, rows of which a fragment has sixteen; their halves change places where `flipped` is 8.
  static __device__ __forceinline__ Place of_rows(int flipped = 0, int lane = own_lane()) {
    return {(lane & 15) ^ flipped, lane >> 4};
  }
  /// As operand B: two tiles of eight columns each.
  static __device__ __forceinline__ Place of_columns(int lane = own_lane()) {
    return {(lane & 7) + (lane >> 4) * 8, lane >> 3 & 1};
  }
  /// One that was made before: an offset in tiles, or a shared address in one.
  __device__ __forceinline__ explicit Place(std::uint32_t offset) : offset_(offset) {}
  __device__ __forceinline__ std::uint32_t offset() const { return offset_; }
  /// tile: the shared address of its first row, a multiple of kRowBytes.
  __device__ __forceinline__ void load(std::uint32_t (&words)[4], std::uint32_t tile, int sixteen,
                                       int step) const {
    ptx::load_matrices(words, ((tile + offset_) ^ (step * 32)) + sixteen * 16 * kRowBytes);
  }
  /// Of rows of 16-bit elements (of_rows()), turned around: columns as operand B, two tiles of eight each.
  __device__ __forceinline__ void load_turned(std::uint32_t (&words)[4], std::uint32_t tile, int sixteen,
                                              int step) const {
    ptx::load_matrices_turned(words, ((tile + offset_) ^ (step * 32)) + sixteen * 16 * kRowBytes);
  }

 private:
  static __device__ __forceinline__ int own_lane() { return static_cast<int>(threadIdx.x % 32); }
  /// row, chunk: of the 16 bytes that the lane points to, in the first sixteen rows and step.
  __device__ __forceinline__ Place(int row, int chunk) : offset_(tile::chunk_offset<kRowBytes>(row, chunk)) {}
  std::uint32_t offset_;
};

/// acc = start + Q K^T of the warp's rows and all keys of the tile. rows: the place's shared address; k: the
/// keys', kRowBytes each.
template <Operand kOperand, int kRowBytes, int kTiles, class Acc>
__device__ __forceinline__ void multiply_qk(Acc (&acc)[kTiles][4], const Place<kRowBytes>& rows,
                                            std::uint32_t k, const Place<kRowBytes>& columns, Acc start) {
  set_all(acc, start);
  // Of long rows of e4m3 the compiler else has several steps' fragments in registers, as halves on sm_90.
  constexpr int kSteps = kRowBytes / 32, kAtOnce = kOperand != Operand::e4m3 ? kSteps : kSteps > 4 ? 2 : 1;
#pragma unroll kAtOnce
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t a[4];
    rows.load(a, 0, 0, step);
#pragma unroll
    for (int pair = 0; pair < (kTiles + 1) / 2; ++pair) {
      std::uint32_t b[4];
      columns.load(b, k, pair, step);
      const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      ptx::multiply<kOperand, kOperand>(acc[2 * pair], a, low);
      if (2 * pair + 1 < kTiles) ptx::multiply<kOperand, kOperand>(acc[2 * pair + 1], a, high);
    }
  }
}

/// acc = P V of so many channels. load(b, pair, step): of two tiles of eight channels and sixteen slots, as
/// operand B.
template <Operand kP, Operand kV, int kTiles, int kSteps, class Acc, class Load>
__device__ __forceinline__ void multiply_p(Acc (&acc)[kTiles][4], const std::uint32_t (&p)[kSteps][4],
                                           const Load& load) {
  set_all(acc, Acc{});
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      std::uint32_t b[4];
      load(b, pair, step);
      const std::uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
      ptx::multiply<kP, kV>(acc[2 * pair], p[step], low);
      ptx::multiply<kP, kV>(acc[2 * pair + 1], p[step], high);
    }
  }
}

/// acc = P V of channels of tiles first ... first + kTiles - 1. v: shared address of rows of channels,
/// kRowBytes of slots each.
template <Operand kP, Operand kV, int kRowBytes, int kTiles, int kSteps, class Acc>
__device__ __forceinline__ void multiply_pv(Acc (&acc)[kTiles][4], const std::uint32_t (&p)[kSteps][4],
                                            std::uint32_t v, const Place<kRowBytes>& columns, int first) {
  multiply_p<kP, kV>(
      acc, p, [&](std::uint32_t(&b)[4], int pair, int step) { columns.load(b, v, first / 2 + pair, step); });
}

/// The same of V whose rows are keys, kRowBytes of 16-bit channels each. rows: of_rows().
template <Operand kP, Operand kV, int kRowBytes, int kTiles, int kSteps, class Acc>
__device__ __forceinline__ void multiply_pv_by_keys(Acc (&acc)[kTiles][4],
                                                    const std::uint32_t (&p)[kSteps][4], std::uint32_t v,
                                                    const Place<kRowBytes>& rows, int first) {
  static_assert(kV == Operand::f16 || kV == Operand::bf16, "ldmatrix turns pairs of bytes");
  multiply_p<kP, kV>(acc, p, [&](std::uint32_t(&b)[4], int pair, int step) {
    rows.load_turned(b, v, step, first / 2 + pair);
  });
}

}  // namespace octet::cuda::mma
