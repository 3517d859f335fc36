// The softmax of one key block whose weights do not wait for its largest score, and do not ask for it
// (numerics/tracked.h): P that are halves are compared two at a time once they are made, and a row's
// reference follows behind the block. A block whose P have left the range of halves is given up before it
// changes anything, to be weighed against its own maximum.
#pragma once
#include <cstdint>

#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/p_words.cuh"
#include "cuda/tile/quad.cuh"
#include "numerics/contract.h"

namespace octet::cuda::wgmma {

using namespace attn;

/// Schemes that have such weights.
template <class S>
concept TracksWeights = requires(std::uint32_t two) {
  S::is_high(two);
};

template <class S, int kTiles, int kKeys>
class TrackedWeights {
 public:
  using Words = PWords<S, kTiles>;
  using Rows = LaneRow<S>[kRowsALane];
  /// What a block makes of a lane's rows: the largest P of each, of even and of odd columns, and masses.
  struct OfBlock {
    std::uint32_t peaks[kRowsALane];
    float sum[kRowsALane];
  };

  /// P of rows that all see the whole block. keys: the constants of the block's keys.
  static __device__ __forceinline__ OfBlock weigh(const S& scheme, const typename S::Acc (&acc)[kTiles][4],
                                                  const std::uint32_t* keys, const Rows& rows, Words& p) {
    float slope[kRowsALane];
    OfBlock block{};
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) slope[r] = scheme.slope(rows[r].row);
    p.end();
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const auto pair = Keys::pair(keys, i * 8 + static_cast<int>(threadIdx.x % 4) * 2);
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        float weight[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          weight[c] = scheme.tracked_weight(acc[i][2 * r + c], pair.of[c], slope[r], rows[r].state);
          block.sum[r] += scheme.mass(weight[c], 0, pair.of[c]);
        }
        std::uint32_t& two = p.word[i / 2][i % 2 * 2 + r];
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(weight[1]), "f"(weight[0]));
        block.peaks[r] = __vmaxu2(block.peaks[r], two);
      }
    }
    return block;
  }

  /// Whether a P of the lane has left its range: then the block is to be weighed otherwise, by all warps that
  /// multiply it together.
  static __device__ __forceinline__ bool has_left(const OfBlock& block) {
    return S::has_left(__vmaxu2(block.peaks[0], block.peaks[1]));
  }
  /// Else the rows' sums with the block's.
  static __device__ __forceinline__ void absorb(const OfBlock& block, Rows& rows) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) rows[r].state.sum += block.sum[r];
  }
  /// Whether references of the warp's rows are to follow.
  static __device__ __forceinline__ bool any_high(const OfBlock& block) {
    return __any_sync(tile::kAllLanes, S::is_high(__vmaxu2(block.peaks[0], block.peaks[1])));
  }
  /// States behind the block, and steps by which outputs follow.
  static __device__ __forceinline__ void follow(const OfBlock& block, Rows& rows) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::uint32_t of_lane = max(block.peaks[r] & 0xffff, block.peaks[r] >> 16);
      const std::int32_t rise = S::rise(tile::over_quad(of_lane, tile::Larger{}));
      rows[r].step.decay = power_of_two(-rise);
      rows[r].sees = true;
      rows[r].state.sum *= rows[r].step.decay;
      rows[r].state.reference += static_cast<float>(rise);
    }
  }

 private:
  using Keys = KeyArrays<typename S::Key, kKeys>;
};

}  // namespace octet::cuda::wgmma
