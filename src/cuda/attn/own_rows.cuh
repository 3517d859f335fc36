// Rows whose scalars take long to make (S::kLongRows): the lanes of a quad share rows, and each makes the
// views, steps and states of one of them, its own, while the others do so for theirs. Then they tell each
// other what scores, weights and outputs need.
#pragma once
#include <cstdint>

#include "cuda/tile/quad.cuh"

namespace octet::cuda::attn {

template <class S>
concept LongRows = requires {
  requires S::kLongRows;
};

/// What a lane keeps of its own row.
template <LongRows S>
struct OwnRow {
  typename S::Row row;
  typename S::State state{};
  typename S::View view;
  typename S::Step step;
  typename S::Window window;        ///< what of the outputs holds sums
  typename S::Window::Entry entry;  ///< of the block's; nothing where the row sees no key of it
  std::int32_t above;               ///< octaves of the upper bin that the window has
};
/// Has one, or nothing for other schemes.
template <class S>
struct HasOwnRow {};
template <LongRows S>
struct HasOwnRow<S> {
  OwnRow<S> own;
};

/// A lane's number of its own row, of so many that its quad shares.
template <int kRows>
__device__ __forceinline__ int own_row() {
  static_assert(kRows == 2 || kRows == 4, "lanes of a quad, or pairs of them, have a row each");
  return static_cast<int>(threadIdx.x) % kRows;
}

/// x[r] is of row r: that of the lane's own.
template <class T, int kRows>
__device__ __forceinline__ T of_own_row(const T (&x)[kRows]) {
  T own = x[0];
#pragma unroll
  for (int r = 1; r < kRows; ++r) own = own_row<kRows>() == r ? x[r] : own;
  return own;
}

/// x of the lane whose own row is r.
template <class T>
__device__ __forceinline__ T from_row(const T& x, int r) {
  return tile::from_lane_of_quad(x, r);
}

/// x[r] is the lane's part of row r: the four parts of its own, joined.
template <class T, int kRows, class Join>
__device__ __forceinline__ T over_quad_of_own(const T (&x)[kRows], const Join& join) {
  const int own = own_row<kRows>();
  // Each exchange leaves a lane the half of the rows in which its own is.
  if constexpr (kRows == 2) {
    const bool odd = own != 0;
    const T first = x[0], second = x[1];  // values, or the compiler has the array in local memory
    const T joined = join(odd ? second : first, tile::from_lane_across(odd ? first : second, 1));
    return join(joined, tile::from_lane_across(joined, 2));
  } else {
    const bool odd = own % 2 != 0, upper = own >= 2;
    const T low = join(odd ? x[1] : x[0], tile::from_lane_across(odd ? x[0] : x[1], 1));
    const T high = join(odd ? x[3] : x[2], tile::from_lane_across(odd ? x[2] : x[3], 1));
    return join(upper ? high : low, tile::from_lane_across(upper ? low : high, 2));
  }
}

}  // namespace octet::cuda::attn
