// The softmax of one key block, on accumulator fragments: the middle of the contract (numerics/contract.h),
// from accumulators to codes of P that lie as the second product wants them. The same for mma.sync and wgmma.
//
// A lane has two rows of its warp's sixteen, g = lane / 4 and g + 8, and of each tile of eight keys the
// columns 2 t and 2 t + 1, t = lane % 4: numbers 0 and 1 of a fragment are of the first row, 2 and 3 of the
// second.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/own_rows.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/ptx/convert.cuh"
#include "cuda/tile/quad.cuh"
#include "lanes/device.h"
#include "numerics/contract.h"
#include "numerics/online.h"

namespace octet::cuda::attn {

/// Rows that a lane has of a fragment.
inline constexpr int kRowsALane = 2;

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

/// Codes of P of a lane as words of operand A, in steps of 32 bytes of the summed axis; behind the last tile
/// zeros.
template <class S, int kTiles>
struct PWords {
  static constexpr int kBytes = bytes_of(S::kP);
  static constexpr int kSteps = (kTiles * 8 * kBytes + 31) / 32;
  std::uint32_t word[kSteps][4];

  __device__ __forceinline__ void end() {
#pragma unroll
    for (int i = kTiles * kBytes; i < 4 * kSteps; ++i) word[i / 4][i % 4] = 0;
  }
};

/// Which numbers of a lane's fragments belong to hidden keys, a bit each; none by default.
struct Hidden {
  std::uint64_t bits = 0;
  __device__ __forceinline__ bool at(int tile, int e) const { return (bits >> (tile * 4 + e) & 1) != 0; }
};

/// Bits of the tiles before number n, four each, and one of each.
__device__ __forceinline__ std::uint64_t tiles_before(int n) {
  return n >= 16 ? ~std::uint64_t{0} : (std::uint64_t{1} << (4 * max(n, 0))) - 1;
}
inline constexpr std::uint64_t kOneATile = 0x1111111111111111;

/// Bits of the keys behind the block's end, of which there are `keys`: the same for all rows.
template <int kTiles>
__device__ __forceinline__ Hidden hidden_by_end(std::int32_t keys) {
  static_assert(kTiles <= 16, "one bit a number of a fragment says whether its key is hidden");
  std::uint64_t visible = 0;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    // The lane's columns are 8 i + column: those that there are end before tile ceil((keys - column) / 8).
    const int column = static_cast<int>(threadIdx.x % 4) * 2 + c;
    visible |= (tiles_before((keys - column + 7) >> 3) & kOneATile) << c;
  }
  return {~(visible | visible << 2)};
}

/// Bits of the keys that causality, a window or the block's end hide; says which rows see one. The block's
/// keys are numbers begin ... begin + keys - 1 of the sequence.
template <class S, int kTiles>
__device__ __forceinline__ Hidden hidden_by_range(const Visibility& visibility, std::int32_t begin,
                                                  std::int32_t keys, LaneRow<S> (&rows)[kRowsALane]) {
  static_assert(kTiles <= 16, "one bit a number of a fragment says whether its key is hidden");
  std::uint64_t visible = 0;
#pragma unroll
  for (int r = 0; r < kRowsALane; ++r) {
    const KeyRange range = visibility.of(rows[r].token);
    const std::int32_t first = max(range.begin - begin, 0);
    const std::int32_t end = min(range.end - begin, keys);
    rows[r].sees = first < end;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      // The lane's columns are 8 i + column: those from `first` on begin at tile ceil((first - column) / 8).
      const int column = static_cast<int>(threadIdx.x % 4) * 2 + c;
      const std::uint64_t of_column =
          tiles_before((end - column + 7) >> 3) & ~tiles_before((first - column + 7) >> 3);
      visible |= (of_column & kOneATile) << (2 * r + c);
    }
  }
  return {~visible};
}

/// What a bias adds to the scores of a block, and the keys that it hides; says which rows see one. Made in a
/// loop that is not unrolled, for what it asks of each key is long. added: anything for hidden keys.
template <class S, int kTiles>
__device__ __forceinline__ Hidden biases_of(typename S::Bias (&added)[kTiles * 4], const S& scheme,
                                            const HeadBias& bias, const Visibility& visibility,
                                            std::int32_t begin, std::int32_t keys,
                                            LaneRow<S> (&rows)[kRowsALane]) {
  Hidden hidden = hidden_by_range<S, kTiles>(visibility, begin, keys, rows);
  bool any[kRowsALane] = {};
#pragma unroll 1
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (hidden.at(i, e)) continue;
      const std::int32_t j = begin + i * 8 + static_cast<int>(threadIdx.x % 4) * 2 + (e & 1);
      const float b = bias.at(rows[e >> 1].token, j);
      const bool hides = b == kMinusInfinity;
      added[i * 4 + e] = scheme.bias(hides ? 0 : b);
      hidden.bits |= static_cast<std::uint64_t>(hides) << (i * 4 + e);
      any[e >> 1] |= !hides;
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsALane; ++r)
    rows[r].sees = tile::over_quad(std::int32_t{any[r]}, tile::Larger{}) != 0;
  return hidden;
}

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
        if (!whole) hide_codes(p, hidden);
        add_codes(p, sum);
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
      put(p, i, code);
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

  /// Codes of one byte become 0.
  static __device__ __forceinline__ void hide_codes(PWords<S, kTiles>& p, const Hidden& hidden) {
#pragma unroll
    for (int i = 0; i < kTiles; i += 2) {
      const auto bits = static_cast<std::uint32_t>(hidden.bits >> (4 * i));
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        // A bit a byte, in the order of the codes, and from 0 and 1 to bytes of zeros and ones.
        const std::uint32_t of_row = bits >> (2 * r);
        const std::uint32_t each =
            (of_row & 1) | (of_row & 2) << 7 | (of_row & 0x10) << 12 | (of_row & 0x20) << 19;
        p.word[i / 4][(i % 4) + r] &= ~(each * 0xffu);
      }
    }
  }
  /// Sums of codes of bytes.
  static __device__ __forceinline__ void add_codes(const PWords<S, kTiles>& p,
                                                   typename S::Sum (&sum)[kRowsALane]) {
    constexpr int kOnes = 0x01010101;
#pragma unroll
    for (int i = 0; i < kTiles; i += 2) {
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        const std::uint32_t word = p.word[i / 4][(i % 4) + r];
        if constexpr (S::kP == Operand::s8)
          sum[r] = __dp4a(as_signed(word), kOnes, sum[r]);
        else
          sum[r] += ptx::sum_of_e4m3(word);
      }
    }
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

  /// Tiles i and i + 1: four codes of one byte a word, or two of two bytes.
  static __device__ __forceinline__ void put(PWords<S, kTiles>& p, int i, const std::int32_t (&code)[2][4]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::uint32_t high = bytes(code[1][2 * r], code[1][2 * r + 1], 0);
      p.word[i / 4][(i % 4) + r] = bytes(code[0][2 * r], code[0][2 * r + 1], high);
    }
  }
  /// The same of codes in one of the bytes of words.
  template <int kByte>
  static __device__ __forceinline__ void put(PWords<S, kTiles>& p, int i,
                                             const DeviceLane::InByte<kByte> (&code)[2][4]) {
    constexpr unsigned kPair = kByte | (kByte + 4) << 4, kLowHalves = 0x5410;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::uint32_t low = __byte_perm(code[0][2 * r].word, code[0][2 * r + 1].word, kPair);
      const std::uint32_t high = __byte_perm(code[1][2 * r].word, code[1][2 * r + 1].word, kPair);
      p.word[i / 4][(i % 4) + r] = __byte_perm(low, high, kLowHalves);
    }
  }
  static __device__ __forceinline__ void put(PWords<S, kTiles>& p, int i, const float (&code)[2][4]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      if constexpr (S::kP == Operand::e4m3) {
        p.word[i / 4][(i % 4) + r] =
            ptx::e4m3_of(code[0][2 * r], code[0][2 * r + 1], code[1][2 * r], code[1][2 * r + 1]);
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          p.word[i / 2][half * 2 + r] = pair(code[half][2 * r], code[half][2 * r + 1]);
      }
    }
  }
  /// Two codes below the two lower bytes of `above`. Codes are in range, so nothing saturates; with a
  /// conversion from f32 before it this is one instruction.
  static __device__ __forceinline__ std::uint32_t bytes(std::int32_t low, std::int32_t high,
                                                        std::uint32_t above) {
    std::uint32_t word;
    if constexpr (S::kP == Operand::u8)
      asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(high), "r"(low), "r"(above));
    else
      asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(high), "r"(low), "r"(above));
    return word;
  }
  /// Rounds codes that are not numbers of the format yet (DeviceLane::kPacksHalves).
  static __device__ __forceinline__ std::uint32_t pair(float low, float high) {
    std::uint32_t word;
    if constexpr (S::kP == Operand::f16)
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    else
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
  }
};

}  // namespace octet::cuda::attn
