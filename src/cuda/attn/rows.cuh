// A warp's sixteen rows before their first key block: where scales of Q are, and what rows begin with.
#pragma once
#include <cstdint>

#include "cuda/attn/lane_rows.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/tile/kept.cuh"

namespace octet::cuda::attn {

/// Where scales of Q are of the rows that a lane opens: two, or of long rows its own.
template <class S>
struct RowScales {
  static constexpr int kCount = LongRows<S> ? 1 : kRowsALane;
  const float* of[kCount];
  bool any;
  __device__ __forceinline__ void read(float (&scales)[kCount]) const {
#pragma unroll
    for (int r = 0; r < kCount; ++r) scales[r] = any ? *of[r] : 1.0f;
  }
};

/// A lane's row number r of the warp's sixteen, whose halves have changed places where `flipped` is 8.
__device__ __forceinline__ int row_of_lane(int r, int flipped) {
  return (static_cast<int>(threadIdx.x % 32) / 4 + 8 * r) ^ flipped;
}

/// first: the warp's first row, of `count` in the sequence. q: HeadOperand, whose rows are tokens, or what
/// QueryHead visits with.
template <class S, class Rows>
__device__ __forceinline__ RowScales<S> scales_of_rows(const Rows& q, std::int32_t first, std::int32_t count,
                                                       int flipped) {
  RowScales<S> scales;
  scales.any = q.has_scales();
#pragma unroll
  for (int r = 0; r < RowScales<S>::kCount; ++r) {
    const int row = LongRows<S> ? own_row<kRowsALane>() : r;
    scales.of[r] = tile::kept(q.scale_at(min(first + row_of_lane(row, flipped), count - 1), 0));
  }
  return scales;
}

/// first: the token of the warp's first row.
template <class S>
__device__ __forceinline__ void open_rows(LaneRow<S> (&rows)[kRowsALane], const S& scheme,
                                          const float (&scales)[RowScales<S>::kCount], std::int32_t first,
                                          int flipped) {
#pragma unroll
  for (int r = 0; r < kRowsALane; ++r) {
    rows[r].token = first + row_of_lane(r, flipped);
    if constexpr (!LongRows<S>) rows[r].row = scheme.row(scales[r]);
  }
  if constexpr (LongRows<S>) rows[0].own.row = scheme.row(scales[0]);
}

/// Where tokens are made anew before they are asked for. note: not forgotten, those of one key block would be
/// kept for the next.
template <class S>
__device__ __forceinline__ void forget_tokens(LaneRow<S> (&rows)[kRowsALane]) {
#pragma unroll
  for (LaneRow<S>& row : rows) row.token = 0;
}

/// Before rows end, where each lane absorbed its own masses.
template <class S>
__device__ __forceinline__ void close_rows(LaneRow<S> (&rows)[kRowsALane]) {
  if constexpr (SumsByLanes<S>) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) rows[r].state.sum = tile::over_quad(rows[r].state.sum, tile::Sum{});
  }
}

}  // namespace octet::cuda::attn
