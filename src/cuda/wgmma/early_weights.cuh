// The softmax of one key block whose weights do not wait for its largest score (numerics/early.h): scores,
// exponentials and masses follow each other key by key, and the units that make exponentials are busy from
// the first score on, where they had all a block's to make at its end.
#pragma once
#include <cstdint>
#include <limits>

#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/p_words.cuh"
#include "cuda/tile/quad.cuh"
#include "numerics/contract.h"

namespace octet::cuda::wgmma {

using namespace attn;

/// Schemes that have such weights.
template <class S>
concept WeighsEarly = requires(const S& scheme) {
  scheme.early_weight(0.0f);
};

template <class S, int kTiles, int kKeys>
class EarlyWeights {
 public:
  /// What a lane's rows are from block to block: in shared memory, for registers hold no more beside scores,
  /// outputs and sums of P V.
  /// note: arrays of what two rows have, for a struct of a lane would lie in the same banks as those of
  /// others: that cost a quarter of the speed.
  template <class T>
  struct alignas(2 * sizeof(T)) OfRows {
    T of[kRowsALane];
  };
  template <int kThreads>
  struct Shared {
    OfRows<typename S::Row> row[kThreads];
    OfRows<float> lift[kThreads], least[kThreads], rslope[kThreads], reference[kThreads], sum[kThreads];
    OfRows<std::int32_t> is_far[kThreads];  // the first; one address does for all arrays
  };
  struct Sums {
    float of[kRowsALane];
  };
  struct Parked {
    template <int kThreads>
    __device__ __forceinline__ Parked(Shared<kThreads>& shared, int thread)
        : row(shared.row[thread].of),
          lift(shared.lift[thread].of),
          least(shared.least[thread].of),
          rslope(shared.rslope[thread].of),
          reference(shared.reference[thread].of),
          sum(shared.sum[thread].of),
          is_far(shared.is_far[thread].of[0]) {}
    __device__ __forceinline__ Sums sums() const { return {sum[0], sum[1]}; }
    typename S::Row (&row)[kRowsALane];
    float (&lift)[kRowsALane];   ///< Early::lift()
    float (&least)[kRowsALane];  ///< how far below the reference a block's largest score may be
    float (&rslope)[kRowsALane], (&reference)[kRowsALane], (&sum)[kRowsALane];
    std::int32_t& is_far;  ///< a block had a score that is not near the reference
  };
  static __device__ __forceinline__ void park_rows(const Parked& parked, const S& scheme,
                                                   const LaneRow<S> (&rows)[kRowsALane]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      parked.row[r] = rows[r].row;
      parked.reference[r] = rows[r].state.reference, parked.sum[r] = rows[r].state.sum;
      parked.rslope[r] = scheme.rslope(rows[r].row);
    }
    parked.is_far = false;
  }
  /// States after a block that was weighed otherwise. A row that has seen no key yet has a reference like
  /// any.
  static __device__ __forceinline__ void park_states(const Parked& parked, const S& scheme,
                                                     const LaneRow<S> (&rows)[kRowsALane]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      refer_to(parked, scheme, r, rows[r].state.reference, rows[r].state.sum);
  }
  static __device__ __forceinline__ void unpark(LaneRow<S> (&rows)[kRowsALane], const Parked& parked) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      rows[r].row = parked.row[r];
      rows[r].state = {parked.reference[r], parked.sum[r]};
    }
  }

  /// Rows' reference before any block: so far above the largest of the first keys' scores, which no largest
  /// score of the block is below, that the other keys' may be far above it.
  static __device__ __forceinline__ void refer_to_first_keys(const Parked& parked, const S& scheme,
                                                             const typename S::Acc (&acc)[kTiles][4],
                                                             const std::uint32_t* keys) {
    const auto pair = Keys::pair(keys, static_cast<int>(threadIdx.x % 4) * 2);
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      float exponent[2];
#pragma unroll
      for (int c = 0; c < 2; ++c)
        exponent[c] = scheme.exponent(acc[0][2 * r + c], parked.row[r], pair.of[c], 0);
      const float largest =
          tile::over_quad(fmaxf(exponent[0], exponent[1]), [](float a, float b) { return fmaxf(a, b); });
      refer_to(parked, scheme, r, largest + S::kAboveFirstKeys, 0);
    }
  }

  /// After blocks that were weighed so.
  static __device__ __forceinline__ void settle(const Parked& parked) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      if (parked.least[r] > kMinusInfinity) parked.reference[r] = S::kFirstReference;
      parked.least[r] = kMinusInfinity;
    }
  }
  /// Whether a row of the lane is to be computed otherwise.
  static __device__ __forceinline__ bool has_failed(const Parked& parked) {
    constexpr float kMost = std::numeric_limits<float>::max();
    return parked.is_far || !(parked.sum[0] <= kMost && parked.sum[1] <= kMost);
  }

  /// Codes of P, steps and sums of masses of rows that all see the whole block; whether a row of the warp has
  /// no reference near its scores. keys: the constants of the block's keys.
  static __device__ __forceinline__ bool weigh(const S& scheme, const typename S::Acc (&acc)[kTiles][4],
                                               const std::uint32_t* keys, const Parked& parked,
                                               LaneRow<S> (&rows)[kRowsALane], PWords<S, kTiles>& p,
                                               Sums& sums) {
    const typename S::Row row[kRowsALane] = {parked.row[0], parked.row[1]};
    const float lift[kRowsALane] = {parked.lift[0], parked.lift[1]};
    float weight[kTiles][4], largest[kRowsALane][kChains];
    sums = {};
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      // The compiler moves no instruction across: else it has scores of all keys before the first
      // exponential, and the last exponentials with nothing beside them. (docs/cuda-measurements.md)
      if (i == kTiles / 2) __syncwarp();
      const auto pair = Keys::pair(keys, i * 8 + static_cast<int>(threadIdx.x % 4) * 2);
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        float exponent[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& of_key = weight[i][2 * r + c];
          exponent[c] = scheme.exponent(acc[i][2 * r + c], row[r], pair.of[c], lift[r]);
          of_key = scheme.early_weight(exponent[c]);
          sums.of[r] += scheme.mass(of_key, 0, pair.of[c]);
        }
        float& chain = largest[r][i % kChains];
        const float of_tile = fmaxf(exponent[0], exponent[1]);
        chain = i < kChains ? of_tile : fmaxf(chain, of_tile);
      }
    }
    float to_codes[kRowsALane];
    bool is_far = false;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const float above = scheme.above(
          tile::over_quad(fmaxf(largest[r][0], largest[r][1]), [](float a, float b) { return fmaxf(a, b); }));
      is_far |= !(above <= S::kMostAbove) | (above < parked.least[r]);
      to_codes[r] = scheme.early_weight(-above);
      rows[r].step.factor = scheme.early_weight(above);
      rows[r].step.decay = is_far ? 0.0f : 1.0f;
      rows[r].sees = true;
    }
    p.end();
#pragma unroll
    for (int i = 0; i < kTiles; i += 2) {
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        std::int32_t code[2][2];
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int c = 0; c < 2; ++c) code[half][c] = scheme.code(weight[i + half][2 * r + c] * to_codes[r]);
        p.word[i / 4][i % 4 + r] = bytes(code[0][0], code[0][1], bytes(code[1][0], code[1][1], 0));
      }
    }
    return __any_sync(tile::kAllLanes, is_far);
  }

  /// Adds a block's masses to the lane's. note: where P V is under way, to which the compiler then moves half
  /// of the additions. All of them before it cost 6 to 10 %.
  static __device__ __forceinline__ void add(const Parked& parked, const Sums& before, const Sums& sums) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) parked.sum[r] = before.of[r] + sums.of[r];
  }

 private:
  using Keys = KeyArrays<typename S::Key, kKeys>;
  static __device__ __forceinline__ void refer_to(const Parked& parked, const S& scheme, int r,
                                                  float reference, float sum) {
    const bool has_reference = reference > kMinusInfinity;
    parked.reference[r] = reference, parked.sum[r] = sum;
    parked.lift[r] = has_reference ? scheme.lift({reference, sum}, parked.rslope[r]) : 0.0f;
    parked.least[r] = has_reference ? kMinusInfinity : -S::kMostBelow;
  }

  static constexpr int kChains = 2;  // of comparisons, each of which waits for the one before it

  /// Two codes below the two lower bytes of `above`; a conversion from f32 and this are one instruction.
  static __device__ __forceinline__ std::uint32_t bytes(std::int32_t low, std::int32_t high,
                                                        std::uint32_t above) {
    static_assert(S::kP == Operand::u8, "codes are unsigned bytes");
    std::uint32_t word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(high), "r"(low), "r"(above));
    return word;
  }
};

}  // namespace octet::cuda::wgmma
