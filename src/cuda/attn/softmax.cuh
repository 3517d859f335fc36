// The softmax of one key block, on accumulator fragments: the middle of the contract (numerics/contract.h),
// from accumulators to codes of P that lie as the second product wants them. The same for mma.sync and wgmma.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda/attn/hidden.cuh"
#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/lane_rows.cuh"
#include "cuda/attn/own_rows.cuh"
#include "cuda/attn/p_words.cuh"
#include "cuda/tile/quad.cuh"
#include "numerics/contract.h"

namespace octet::cuda::attn {

/// What lanes of a quad absorb of a block's masses: all the sum of all, or each its own. The second saves
/// shuffles that a key block waits for; where few registers are left, the first is faster, for the compiler
/// then adds masses before it makes other weights (docs/cuda-measurements.md).
enum class Masses { of_quad, of_lane };

/// What is done with rows that see no key of a block of which others see some: their sums and states stay as
/// they are, or take weights of nothing (blind_step() of the contract), which costs no choice.
enum class Blind { is_left_out, adds_nothing };

/// Whether the compiler may have instructions that make weights of some keys beside those of others. It
/// then begins with the arguments of many exponentials, and ends with exponentials alone
/// (docs/cuda-measurements.md).
enum class Pace { free, by_halves, by_32_keys };

/// kKeys: places of the block, of which the first kTiles tiles are computed.
template <class S, int kTiles, int kKeys, Masses kMasses, Blind kBlind = Blind::is_left_out,
          Pace kPace = Pace::free>
class BlockSoftmax {
 public:
  using Acc = typename S::Acc;
  using Score = typename S::Score;
  using Keys = KeyArrays<typename S::Key, kKeys>;
  using Rows = LaneRow<S>[kRowsALane];
  using Views = typename S::View[kRowsALane];
  using Sums = typename S::Sum[kRowsALane];

  /// Views and scores of a block. keys: the constants of its keys; bias_of(i, e): what is added to a score.
  template <class BiasOf>
  static __device__ __forceinline__ void score(const S& scheme, const Acc (&acc)[kTiles][4],
                                               const std::uint32_t* keys, const typename S::Block& block,
                                               Rows& rows, Views& view, Score (&score)[kTiles][4],
                                               const BiasOf& bias_of) {
    const auto each = [&](const auto& score_of) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const auto pair = Keys::pair(keys, i * 8 + column());
#pragma unroll
        for (int e = 0; e < 4; ++e) score[i][e] = score_of(acc[i][e], e >> 1, pair.of[e & 1], bias_of(i, e));
      }
    };
    if constexpr (LongRows<S>) {
      OwnRow<S>& own = rows[0].own;
      const Acc row_peak = largest_of_own(acc);
      const bool near = __all_sync(tile::kAllLanes, scheme.fits_u16(own.row, block));
      if (near) [[likely]] {
        own.view = scheme.near_view(own.row, block, row_peak);
        typename S::NearView of[kRowsALane];
#pragma unroll
        for (int r = 0; r < kRowsALane; ++r)
          of[r] = scheme.near(own.view).passed([&](const auto& word) { return from_row(word, r); });
        each([&](Acc a, int r, const Key& key, auto bias) { return scheme.near_score(a, of[r], key, bias); });
        return;
      }
      own.view = scheme.view(own.row, block, row_peak);
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r)
        view[r] = own.view.passed([&](const auto& word) { return from_row(word, r); });
    } else {
      Acc row_peak[kRowsALane] = {};
      if constexpr (S::kUsesRowPeak) largest(acc, row_peak);
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) view[r] = scheme.view(rows[r].row, block, row_peak[r]);
    }
    each([&](Acc a, int r, const Key& key, auto bias) { return scheme.score(a, view[r], key, bias); });
  }

  /// Accumulators or scores of hidden keys are the least there is, or the one that a scheme has for them: no
  /// row's largest, and one that weighs nothing where it is a float or the scheme's.
  template <class T>
  static __device__ __forceinline__ void hide(T (&x)[kTiles][4], const Hidden& hidden) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[i][e] = hidden.at(i, e) ? hidden_number<T>() : x[i][e];
    }
  }

  /// From scores to each row's step and state, and p. whole: no key is hidden; padding: keys that the block
  /// lacks.
  static __device__ __forceinline__ void run(const S& scheme, const Score (&score)[kTiles][4],
                                             const std::uint32_t* keys, const Views& view, Rows& rows,
                                             PWords<S, kTiles>& p, const Hidden& hidden, bool whole,
                                             std::int32_t padding) {
    Sums sum = {};
    const auto weigh_with = [&](const auto& weights) {
      if (hides_by_scores() || kMassIsCode || whole) [[likely]]
        weigh(
            weights, score, keys, rows, p, [](int, int) { return false; }, sum);
      else
        weigh(
            weights, score, keys, rows, p, [&](int i, int e) { return hidden.at(i, e); }, sum);
      if constexpr (kMassIsCode) {
        if (!whole) p.hide(hidden);
        p.add_to(sum);
      }
    };
    if constexpr (LongRows<S>) {
      OwnRow<S>& own = rows[0].own;
      own.step = scheme.step(own.state, largest_of_own(score), own.view);
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r)
        rows[r].step = own.step.passed([&](const auto& word) { return from_row(word, r); });
      weigh_with(scheme);
      const auto of_row = over_quad_of_own(sum, tile::Sum{});
      bool sees[kRowsALane];
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        sees[r] = rows[r].sees;
        rows[r].blocks_seen += sees[r] ? 1 : 0;
      }
      own.entry = {};
      if (!of_own_row(sees)) return;
      own.entry = scheme.enter(own.window, own.step, own.above);
      own.state = scheme.absorb(own.state, own.step, of_row);
    } else {
      Score peak[kRowsALane];
      largest(score, peak);
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        if constexpr (kBlind == Blind::adds_nothing)
          rows[r].step = scheme.blind_step(rows[r].state, peak[r], view[r]);
        else
          rows[r].step = scheme.step(rows[r].state, peak[r], view[r]);
      }
      if constexpr (requires { S::kAsksOptions; })
        scheme.with_weights(weigh_with);
      else
        weigh_with(scheme);
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        if constexpr (!kByLanes) sum[r] = tile::over_quad(sum[r], tile::Sum{});
        if constexpr (requires { scheme.padding_mass(rows[r].step); })
          sum[r] += scheme.padding_mass(rows[r].step) * padding;
        if (!rows[r].sees) continue;
        rows[r].state = scheme.absorb(rows[r].state, rows[r].step, sum[r]);
        ++rows[r].blocks_seen;
      }
    }
  }

  /// The largest number of the lane's own row, where each lane of a quad has one.
  template <class T>
  static __device__ __forceinline__ T largest_of_own(const T (&x)[kTiles][4]) {
    T peak[kRowsALane];
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) peak[r] = largest_of_lane(x, r);
    return over_quad_of_own(peak, [](T a, T b) { return larger(a, b); });
  }

  /// Codes and masses. Weights: the scheme, or what it makes of itself for this loop.
  template <class Weights, class IsHidden>
  static __device__ __forceinline__ void weigh(const Weights& weights, const Score (&score)[kTiles][4],
                                               const std::uint32_t* keys, const Rows& rows,
                                               PWords<S, kTiles>& p, const IsHidden& is_hidden, Sums& sum) {
    p.end();
    Terms terms = {};  // of masses that are integers
    int count = 0;
#pragma unroll
    for (int i = 0; i < kTiles; i += 2) {
      if constexpr (kPace == Pace::by_32_keys) {
        if (i % 4 == 0) __syncwarp();
      } else if constexpr (kPace == Pace::by_halves) {
        if (i == kTiles / 2) __syncwarp();
      }
      const decltype(Keys::pair(keys, 0)) pair[2] = {Keys::pair(keys, i * 8 + column()),
                                                     Keys::pair(keys, i * 8 + 8 + column())};
      decltype(weights.code(weights.weight(Score{}, rows[0].step))) code[2][4] = {};
#pragma unroll
      for (int half = 0; half < 2 && i + half < kTiles; ++half) {  // of an odd number the last stands alone
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          auto weight = weights.weight(score[i + half][e], rows[e >> 1].step);
          if (is_hidden(i + half, e)) {
            if constexpr (!std::is_same_v<decltype(weight), float>) continue;
            weight = {};
          }
          code[half][e] = weights.code(weight);
          if constexpr (!kMassIsCode) {
            const auto mass = weights.mass(weight, code[half][e], pair[half].of[e & 1]);
            if constexpr (requires { S::kMassTerms; })
              terms[e >> 1] += static_cast<std::uint32_t>(mass);
            else
              sum[e >> 1] += mass;
          }
        }
      }
      p.put(i, code);
      if constexpr (requires { S::kMassTerms; } && !kMassIsCode) {
        count += 4;
        if (count == S::kMassTerms || i + 2 >= kTiles) {
          add_terms(sum, terms);
          count = 0;
        }
      }
    }
  }

 private:
  using Key = typename S::Key;
  static constexpr bool kByLanes = SumsByLanes<S> && kMasses == Masses::of_lane;
  static constexpr bool kMassIsCode = requires { S::kMassIsCode; };
  using Terms = std::uint32_t[kRowsALane];

  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x % 4) * 2; }

  /// Whether no weight need ask if its key is hidden: scores of hidden keys weigh nothing, -inf does, and of
  /// other schemes what they say of theirs. Of integers whose masses are of the quad, the compiler spilled
  /// 108 bytes in one loop for all keys and none in two.
  static constexpr bool hides_by_scores() {
    if constexpr (requires { S::kHiddenScore; })
      return kMasses == Masses::of_lane;
    else if constexpr (requires { S::kHiddenWeighsNothing; })
      return S::kHiddenWeighsNothing;
    else
      return std::is_same_v<Score, float>;
  }

  template <class T>
  static __device__ __forceinline__ constexpr T hidden_number() {
    if constexpr (requires { S::kHiddenScore; })
      return S::kHiddenScore;
    else if constexpr (std::is_same_v<T, float>)
      return kMinusInfinity;
    else
      return std::numeric_limits<std::int32_t>::min();
  }

  // note: NaN does not win, and need not: it comes to its row with the weights.
  static __device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
  static __device__ __forceinline__ std::int32_t larger(std::int32_t a, std::int32_t b) { return max(a, b); }

  /// The largest number of each row; hidden ones are the least.
  template <class T>
  static __device__ __forceinline__ void largest(const T (&x)[kTiles][4], T (&peak)[kRowsALane]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r)
      peak[r] = tile::over_quad(largest_of_lane(x, r), [](T a, T b) { return larger(a, b); });
  }
  /// Of even and of odd tiles by itself, for each comparison waits for the one before it.
  template <class T>
  static __device__ __forceinline__ T largest_of_lane(const T (&x)[kTiles][4], int r) {
    constexpr int kChains = 2;
    T peak[kChains];
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const T of_tile = larger(x[i][2 * r], x[i][2 * r + 1]);
      peak[i % kChains] = i < kChains ? of_tile : larger(peak[i % kChains], of_tile);
    }
    return larger(peak[0], peak[1]);
  }

  static __device__ __forceinline__ void add_terms(Sums& sum, Terms& terms) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      if constexpr (std::is_same_v<typename S::Sum, std::int32_t>)
        sum[r] += as_signed(terms[r]);
      else
        sum[r] += terms[r];
      terms[r] = 0;
    }
  }
};

}  // namespace octet::cuda::attn
