// The rows that a lane has of its warp's sixteen, g = lane / 4 and g + 8. Of each tile of eight keys it has
// the columns 2 t and 2 t + 1, t = lane % 4: numbers 0 and 1 of a fragment are of the first row, 2 and 3 of
// the second.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cuda/attn/own_rows.cuh"
#include "lanes/device.h"
#include "numerics/online.h"

namespace octet::cuda::attn {

/// Rows that a lane has of a fragment.
inline constexpr int kRowsALane = 2;

/// Schemes whose row sum is the online softmax's: four lanes' own sums can be added at the row's end
/// (close_rows).
template <class S>
concept SumsByLanes = std::is_same_v<typename S::State, typename Online<DeviceLane>::State> &&
    std::is_same_v<typename S::Sum, float>;

/// What a lane keeps of one of its rows. The lanes of a quad hold the same, but for sums that are of lanes.
/// Of a scheme of long rows, `row` and `state` are nobody's, `step` is what weights need of it, and the
/// lane's own row is in `own` of the first.
template <class S>
struct LaneRow : HasOwnRow<S> {
  typename S::Row row;
  typename S::State state{};
  typename S::Step step;
  std::int32_t token;  ///< within the sequence
  bool sees = true;    ///< any key of the block at hand
  // note: a number and not a flag, after whose first change the compiler would have a copy of the whole loop.
  std::int32_t blocks_seen = 0;
  __device__ __forceinline__ bool saw() const { return blocks_seen > 0; }  ///< any key so far
};

}  // namespace octet::cuda::attn
