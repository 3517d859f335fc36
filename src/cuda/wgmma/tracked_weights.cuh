// The softmax of one key block whose weights do not wait for its largest score, and do not ask for it
// (numerics/tracked.h): P that are halves are compared two at a time once they are made, and a row's
// reference follows behind the block.
#pragma once
#include <cstdint>

#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/softmax.cuh"
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
  /// The largest P of each of a lane's rows, of even and of odd columns.
  struct Peaks {
    std::uint32_t of[kRowsALane];
  };

  /// P and states of rows that all see the whole block. keys: the constants of the block's keys.
  static __device__ __forceinline__ Peaks weigh(const S& scheme, const typename S::Acc (&acc)[kTiles][4],
                                                const std::uint32_t* keys, Rows& rows, Words& p) {
    float slope[kRowsALane], sum[kRowsALane] = {};
    Peaks peaks{};
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
          sum[r] += scheme.mass(weight[c], 0, pair.of[c]);
        }
        std::uint32_t& two = p.word[i / 2][i % 2 * 2 + r];
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(weight[1]), "f"(weight[0]));
        peaks.of[r] = __vmaxu2(peaks.of[r], two);
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      rows[r].state.sum += sum[r];
      rows[r].step.decay = 1, rows[r].step.factor = 1;
      rows[r].sees = true;
    }
    return peaks;
  }

  /// After the block's sums are folded: whether references of the warp's rows are to follow.
  static __device__ __forceinline__ bool any_high(const Peaks& peaks) {
    bool is_high = false;
#pragma unroll
    for (const std::uint32_t two : peaks.of) is_high |= S::is_high(two);
    return __any_sync(tile::kAllLanes, is_high);
  }
  /// States behind the weights, and steps by which outputs follow; whether a row is to be computed otherwise.
  static __device__ __forceinline__ bool follow(const Peaks& peaks, Rows& rows) {
    bool has_left = false;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::uint32_t of_lane = max(peaks.of[r] & 0xffff, peaks.of[r] >> 16);
      const std::uint32_t peak = tile::over_quad(of_lane, tile::Larger{});
      has_left |= S::has_left(peak);
      const std::int32_t rise = S::rise(peak);
      rows[r].step.decay = power_of_two(-rise);
      rows[r].state.sum *= rows[r].step.decay;
      rows[r].state.reference += static_cast<float>(rise);
    }
    return has_left;
  }

 private:
  using Keys = KeyArrays<typename S::Key, kKeys>;
};

}  // namespace octet::cuda::wgmma
