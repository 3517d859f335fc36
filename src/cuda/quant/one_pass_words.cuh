// What blocks of threads that run beside each other tell each other about leaves and units (the sequences of
// heads), and the end of a unit's tree. A word says by itself whether it has been told, so that nobody counts
// and no fence is needed: the words are cleared by a kernel before.
#pragma once
#include <cstdint>

#include "base/divider.h"
#include "cuda/ptx/relaxed.cuh"
#include "cuda/quant/one_pass.cuh"
#include "cuda/quant/squares.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "quant/mean.h"
#include "quant/tree.h"

namespace octet::cuda {

/// A word that has not been told; as a float a NaN, which nobody tells.
inline constexpr std::uint32_t kUntold = 0x7fffffffu;

/// What is told of a channel's norm, in place of its order, where its squares are no normal numbers, or NaN
/// or Inf.
inline constexpr std::uint32_t kNotFound = 0x7ffffffeu;

__device__ inline bool is_told(std::uint32_t word) { return word != kUntold; }
__device__ inline bool is_told(const uint4& v) {
  return is_told(v.x) && is_told(v.y) && is_told(v.z) && is_told(v.w);
}

/// The leaves of a dense tensor, unit after unit, and their words.
struct OnePassPlan {
  /// Of a unit's words, so that not all processors ask for the same ones over and over.
  static constexpr int kCopies = 16;

  std::int32_t tokens = 0;
  float mean_factor = 1, mean_divisor = 1;  ///< quant/mean.h
  Divider leaves_of_unit{1};                ///< ceil(tokens / 128)
  std::uint32_t leaves = 0, units = 0;
  std::int64_t told = 0;               ///< words that are told, from of_leaves on
  std::uint32_t* of_leaves = nullptr;  ///< [leaf][statistic][channel]: sums of leaves, and ranges
  /// [unit][copy][statistic][channel]: means; or orders, and amax
  std::uint32_t* of_units = nullptr;

  OnePassPlan() = default;
  OnePassPlan(const std::array<std::int64_t, 4>& shape, Statistic statistic, void* scratch)
      : tokens(static_cast<std::int32_t>(shape[2])),
        mean_factor(quant::mean_factor(shape[2])),
        mean_divisor(quant::mean_divisor(shape[2])),
        leaves_of_unit((shape[2] + quant::TreeSum::kLeafTokens - 1) / quant::TreeSum::kLeafTokens),
        leaves(static_cast<std::uint32_t>(shape[0] * shape[1] * leaves_of_unit)),
        units(static_cast<std::uint32_t>(shape[0] * shape[1])),
        of_leaves(static_cast<std::uint32_t*>(scratch)) {
    const std::int64_t place = (statistic == Statistic::mean ? 1 : 2) * shape[3];
    told = (leaves + std::int64_t{units} * kCopies) * place;
    of_units = of_leaves + leaves * place;
  }

  std::int64_t bytes() const { return told * 4; }
};

/// Where a kernel finds them: addresses are what the ends of trees wait for.
template <int kStatistics_, int kDim>
struct WordPlaces {
  static constexpr int kStatistics = kStatistics_;  ///< words a channel: sums; of norms sums and ranges
  static constexpr int kChannelsOfUnit = kDim, kOfPlace = kStatistics * kDim;

  __device__ static std::uint32_t* leaf(const OnePassPlan& plan, std::uint32_t number) {
    return plan.of_leaves + std::int64_t{number} * kOfPlace;
  }
  __device__ static std::uint32_t* unit(const OnePassPlan& plan, std::uint32_t number, int copy) {
    return plan.of_units + (std::int64_t{number} * OnePassPlan::kCopies + copy) * kOfPlace;
  }
};

/// So many leaves of a unit at most.
inline constexpr int kMostLeavesOfUnit = 512;

/// The sums (and ranges) of four channels of a unit.
struct TreeEnd {
  float sum[4];
  std::uint32_t range[4];
};

/// The end of a unit's tree in channels [8 part + 4 (lane % 2), + 4), once all of its leaves have been told;
/// of the warp. Leaves lie eight a pair of lanes, in chunks of 128. At most kMostLeavesOfUnit.
template <class Places>
class TreeEnds {
 public:
  static constexpr int kParts = 8;  ///< channels of a part

  __device__ static TreeEnd of(const OnePassPlan& plan, std::uint32_t unit, int part, int lane) {
    const int count = plan.leaves_of_unit, quad = lane % 2, pair = lane / 2;
    const std::uint32_t* const from =
        Places::leaf(plan, unit * static_cast<std::uint32_t>(count)) + part * kParts + quad * 4;
    TreeEnd end;
#pragma unroll
    for (int j = 0; j < 4; ++j) end.range[j] = kRangeOfZeros;
    float chunk[kMostLeavesOfUnit / kChunk][4];
#pragma unroll
    for (int c = 0; c < kMostLeavesOfUnit / kChunk; ++c) {
      if (c * kChunk >= count) break;
      const int first = c * kChunk + pair * kOwn, own = max(min(count - first, kOwn), 0);
      Own words;
      words.await(from + first * Places::kOfPlace, own);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float sum = words.sum(j, own);
#pragma unroll
        for (int distance = 1; distance < kPairs; distance *= 2) {
          const float right = __shfl_down_sync(kAllLanes, sum, 2 * distance);
          if (pair % (2 * distance) == 0 && first + distance * kOwn < count) sum = sum + right;
        }
        chunk[c][j] = sum;
        if (kStatistics > 1) end.range[j] = joined_range(end.range[j], words.range(j));
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float sum = chunk[0][j], right = chunk[2][j];
      if (count > kChunk) sum = sum + chunk[1][j];
      if (count > 3 * kChunk) right = right + chunk[3][j];
      if (count > 2 * kChunk) sum = sum + right;
      end.sum[j] = __shfl_sync(kAllLanes, sum, quad);
#pragma unroll
      for (int distance = 2; distance < kWarp && kStatistics > 1; distance *= 2)
        end.range[j] = joined_range(end.range[j], __shfl_xor_sync(kAllLanes, end.range[j], distance));
    }
    return end;
  }

 private:
  static constexpr int kStatistics = Places::kStatistics;
  static constexpr int kOwn = 8, kPairs = kWarp / 2, kChunk = kOwn * kPairs;
  static_assert(kMostLeavesOfUnit == 4 * kChunk, "the chunks' tree has two levels");

  /// A lane's leaves of a chunk, beside each other.
  struct Own {
    uint4 sums[kOwn], ranges[kOwn];

    __device__ void await(const std::uint32_t* from, int own) {
      // note: the last one alone at first, and seldom: blocks wait for the end of units that are far away,
      // and their looks at all words would take as much of the cache's time as the rows do.
      constexpr int kNap = 100;  // ns
      const std::uint32_t* last = from + max(own - 1, 0) * Places::kOfPlace;
      while (!__all_sync(kAllLanes, own == 0 || is_told(ptx::look_at_four(last)))) __nanosleep(kNap);
      bool all;
      do {
        all = true;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const std::uint32_t* at = from + min(i, own - 1) * Places::kOfPlace;
          sums[i] = own > 0 ? ptx::look_at_four(at) : uint4{};
          if (kStatistics > 1)
            ranges[i] = own > 0 ? ptx::look_at_four(at + Places::kChannelsOfUnit)
                                : uint4{kRangeOfZeros, kRangeOfZeros, kRangeOfZeros, kRangeOfZeros};
        }
#pragma unroll
        for (int i = 0; i < kOwn; ++i) all &= is_told(sums[i]) && (kStatistics == 1 || is_told(ranges[i]));
      } while (!__all_sync(kAllLanes, all));
    }
    __device__ float sum(int channel, int own) const {
      float a[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) a[i] = float_of(word(sums[i], channel));
      return sum_of_few(a, own);
    }
    __device__ std::uint32_t range(int channel) const {
      std::uint32_t all = word(ranges[0], channel);
#pragma unroll
      for (int i = 1; i < kOwn; ++i) all = joined_range(all, word(ranges[i], channel));
      return all;
    }

   private:
    __device__ static std::uint32_t word(const uint4& of, int channel) {
      return channel == 0 ? of.x : channel == 1 ? of.y : channel == 2 ? of.z : of.w;
    }
  };
};

}  // namespace octet::cuda
