// What the rows of a short sequence have in common: the mean of each channel, or what each is multiplied by.
// The steps are those of sums.cu and exponents.cu, with the same bits.
#pragma once
#include <bit>
#include <cstdint>

#include "cuda/quant/short_rows.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "quant/channel_exponent.h"
#include "quant/mean.h"

namespace octet::cuda {

template <int kRowVectorsLog2, VectorsLog2 kVectorsLog2, GroupScales kGroupScales>
class ShortStatistics : public ShortRows<kRowVectorsLog2, kVectorsLog2, kGroupScales> {
  using Base = ShortRows<kRowVectorsLog2, kVectorsLog2, kGroupScales>;

 public:
  using Base::Base;

 protected:
  using Base::dtype_, Base::has_shift_, Base::k_, Base::plan_, Base::r_, Base::tokens_, Base::wide_;
  using Base::exchanged, Base::halves, Base::largest, Base::leaf_count, Base::leaves, Base::numbers_of;
  using Base::kRowVectors, Base::kWidth;
  using Base::place, Base::tells, Base::thread, Base::threads, Base::unit_offset, Base::vectors, Base::words;

  /// What each channel is shifted by, in words(), where it is known.
  __device__ void take_shift() {
    if (const int c = thread(); c < kWidth)
      words()[c] = c < r_.dim ? static_cast<const float*>(r_.shift.data)[unit_offset(r_.shift) + c] : 0.0f;
    __syncthreads();
  }

  /// The mean of each channel, in words().
  __device__ void find_mean() {
    const float factor = quant::mean_factor(tokens_);
    for_leaves([&](int leaf, int channel) {
      const float sum = sum_of_leaf(leaf, channel, [&](float x) { return x * factor; });
      if (is_finite(sum)) return sum;
      // NaN and Inf are rare: where a sum comes out neither, none was there.
      return sum_of_leaf(leaf, channel, [&](float x) { return (is_finite(x) ? x : 0.0f) * factor; });
    });
    if (const int c = thread(); c < kWidth) {
      const float mean = c < r_.dim ? quant::mean_of_sum(sum_of_leaves(c), tokens_) : 0.0f;
      words()[c] = mean;
      if (tells() && c < r_.dim) static_cast<float*>(r_.shift.data)[unit_offset(r_.shift) + c] = mean;
    }
    __syncthreads();
  }

  /// What each channel is multiplied by, in words(); rows are neither shifted nor rotated.
  __device__ void find_exponents() {
    __shared__ std::int64_t orders[kWarp];  // of warps
    if (__syncthreads_or(find_largest())) {
      clear_bad_rows();
      find_largest();
      __syncthreads();
    }
    for_leaves([&](int leaf, int channel) {
      const float factor = quant::square_factor(float_of(largest()[channel]));
      return sum_of_leaf(leaf, channel, [&](float x) {
        const float y = x * factor;
        return y * y;
      });
    });
    const int channel = thread();
    const float amax = channel < r_.channels ? float_of(largest()[channel]) : 0.0f;
    const std::int64_t order =
        amax > 0 ? quant::norm_order(__fsqrt_rn(sum_of_leaves(channel)), amax) : INT64_MIN;
    const std::int64_t most_order = largest_of_block(order, orders, kWidth / kWarp);
    if (channel < kWidth) {
      const std::int32_t exponent = quant::channel_exponent(order, most_order, amax);
      words()[channel] = channel < r_.channels ? power_of_two(-exponent) : 0.0f;
      if (tells() && channel < r_.channels)
        static_cast<std::int32_t*>(r_.exponent.data)[unit_offset(r_.exponent) + channel] = exponent;
    }
    __syncthreads();
  }

  /// The bits of each channel's largest |x| in largest(), which begins with zeros. Whether the thread saw NaN
  /// or Inf, which are larger than all numbers.
  __device__ bool find_largest() {
    constexpr int kPairs = kChannels / 2;
    constexpr std::uint32_t kSizes = 0x7fff7fffu;  // of 16-bit numbers these order as their codes do
    std::uint32_t most[kPairs] = {};
    for (int row = wide_.row; row < tokens_; row += wide_.rows_at_once) {
      const uint4 v = vectors()[place(row, wide_.first / kChannels)];
      const std::uint32_t pairs[kPairs] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < kPairs; ++i) most[i] = __vmaxu2(most[i], pairs[i] & kSizes);
    }
#pragma unroll
    for (int distance = kRowVectors; distance < kWarp; distance *= 2)
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        most[i] = __vmaxu2(most[i], __shfl_xor_sync(kAllLanes, most[i], distance));
    if (thread() % kWarp >= kRowVectors) return false;
    float largest_of[kChannels];
    to_floats(Raw<std::uint16_t>{{{most[0], most[1], most[2], most[3]}}}, dtype_, largest_of);
    bool is_bad = false;
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const std::uint32_t bits = bits_of(largest_of[i]);
      is_bad |= bits >= kInfBits;
      atomicMax(largest() + wide_.first + i, bits);
    }
    return is_bad;
  }

  /// Rows with NaN or Inf are zeros from now on, and largest() too.
  __device__ void clear_bad_rows() {
    for (int begin = 0; begin < tokens_; begin += wide_.rows_at_once) {
      const int row = begin + wide_.row;
      const int at = place(row, wide_.first / kChannels);
      Raw<std::uint16_t> raw{};
      if (row < tokens_) raw.v[0] = vectors()[at];
      float v[kChannels];
      to_floats(raw, dtype_, v);
      const std::uint32_t peak = largest_of_row(largest_bits(v), kRowVectors);
      if (peak < kInfBits || row >= tokens_) continue;
      vectors()[at] = {};
      if (k_.non_finite) *k_.non_finite = 1;
    }
    if (thread() < kWidth) largest()[thread()] = 0;
    __syncthreads();
  }

 private:
  static constexpr int kLeaf = ShortSpace::kLeaf, kAtOnce = ShortSpace::kAtOnce;

  /// The sum of term(x) over a channel of a leaf.
  template <class Term>
  __device__ float sum_of_leaf(int leaf, int channel, const Term& term) {
    const int end = min((leaf + 1) * kLeaf, tokens_);
    float sum = -0.0f;  // -0 + x is x for every x
    for (int row = leaf * kLeaf; row < end; row += kAtOnce) {
      const std::uint16_t* from = halves() + row * kWidth;
      std::uint32_t code[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)  // beyond the end too, where memory is
        code[i] = from[i * kWidth + (channel ^ kChannels * exchanged(i))];
      float x[kAtOnce];
      numbers_of(code, x);
      if (row + kAtOnce <= end) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) sum = sum + term(x[i]);
      } else {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
          if (row + i < end) sum = sum + term(x[i]);
      }
    }
    return sum;
  }
  /// The sums of all leaves and channels, a thread each: sum(leaf, channel).
  template <class Sum>
  __device__ void for_leaves(const Sum& sum) {
    for (int i = thread(); i < leaf_count() * kWidth; i += threads())
      leaves()[i] = sum(i / kWidth, i % kWidth);
    __syncthreads();
  }
  __device__ float sum_of_leaves(int channel) {
    constexpr int kMostLeaves = std::bit_ceil(unsigned{ShortSpace::kMostBytes / (kWidth * 2 * kLeaf)});
    return sum_of_some<kMostLeaves, 4>(leaf_count(), [&](int i) { return leaves()[i * kWidth + channel]; });
  }
};

}  // namespace octet::cuda
