// The exponents of a unit (a sequence of a head) whose plain squares are no normal numbers, or which has NaN
// or Inf: from two more passes over its rows, by a block of threads that is alone with it, for this is rare.
// And its codes, from another pass, where all of its tokens have the same scales.
#pragma once
#include <cstdint>

#include "cuda/ptx/relaxed.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/one_pass_ring.cuh"
#include "cuda/quant/one_pass_words.cuh"
#include "cuda/quant/packed_values.cuh"
#include "cuda/quant/write_codes.cuh"
#include "cuda/tile/kept.cuh"
#include "quant/channel_exponent.h"

namespace octet::cuda {

/// A thread has eight channels of a row, and those of every so many leaves.
template <class Shape, int kBlockThreads>
class SquaresAgain {
 public:
  using Places = WordPlaces<2, Shape::kDim>;
  using Ends = TreeEnds<Places>;
  struct Space {
    std::uint32_t largest[Shape::kDim];
    std::int32_t orders[Shape::kDim];
  };

  /// number: of the unit's first leaf, in shared memory. What was told of the unit's leaves, which nobody
  /// asks for any more, becomes the sums of scaled squares. Of the block, before and after a barrier.
  __device__ static void write_exponents(const RowReading& r, const OnePassPlan& plan,
                                         const std::uint32_t& number, Space& space) {
    tell_squares(r, plan, number, space);
    find_orders(plan, number, space);
    const int thread = this_thread();
    if (thread < Shape::kDim && r.exponent.data) {
      const Leaf first(plan, r.order, number);
      std::int32_t largest = kOrderOfZeros;
      for (const std::int32_t order : space.orders) largest = max(largest, order);
      static_cast<std::int32_t*>(r.exponent.data)[row_offset(r.exponent, first.b, first.h, 0) + thread] =
          quant::channel_exponent(space.orders[thread], largest, float_of(space.largest[thread]));
    }
  }

  /// The scales of the unit or its channels, and its codes. space: as write_exponents() has left it.
  __device__ static void write_scaled(const RowReading& r, const Coding& k, const OnePassPlan& plan,
                                      std::uint32_t number, const Space& space) {
    __syncthreads();  // all exponents are there
    const Leaf first(plan, r.order, number);
    const auto* const exponents =
        static_cast<const std::int32_t*>(r.exponent.data) + row_offset(r.exponent, first.b, first.h, 0);
    auto* const scales = static_cast<float*>(k.scales.data) + row_offset(k.scales, first.b, first.h, 0);
    const auto equaliser = [&](int c) { return r.exponent.data ? power_of_two(-exponents[c]) : 1.0f; };
    const auto equalised = [&](int c) { return float_of(space.largest[c]) * equaliser(c); };
    const bool by_channel = k.channel_groups > 1;
    float of_all = 0;
    for (int c = 0; c < Shape::kDim; ++c) of_all = fmaxf(of_all, equalised(c));
    const auto scale_of = [&](int c) { return k.making.of(by_channel ? equalised(c) : of_all, 0); };
    const int thread = this_thread(), channel = thread % kRowThreads * kChannels;
    if (thread < k.channel_groups) scales[thread * k.scales.stride[3]] = scale_of(thread).scale;

    float factor[kChannels], rscale[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      factor[i] = equaliser(channel + i), rscale[i] = scale_of(channel + i).rscale;
    const auto* const rows =
        static_cast<const std::uint16_t*>(r.x.data) + row_offset(r.x, first.b, first.h, 0) + channel;
    constexpr int kRowsAtOnce = kBlockThreads / kRowThreads;
    // Packed ones end with the last key block, a leaf.
    const int end = k.packed.data ? plan.leaves_of_unit * kLeafRows : plan.tokens;
    for (int begin = 0; begin < end; begin += kRowsAtOnce) {
      const int row = begin + thread / kRowThreads;
      float v[kChannels];
      const bool is_bad = read_row(r, rows + row * r.x.stride[2], row < plan.tokens, v);
      if (row >= end) continue;
      if (is_bad && k.non_finite) *k.non_finite = 1;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) v[i] = v[i] * factor[i] * rscale[i];
      const uint2 codes = clamped_codes_in_words(v);
      if (k.packed.data)
        put_packed(k.packed, first, row, channel, codes);
      else
        *reinterpret_cast<uint2*>(static_cast<std::int8_t*>(k.codes.data) +
                                  row_offset(k.codes, first.b, first.h, row) + channel) = codes;
    }
    __syncthreads();  // nobody needs the space any more
  }

 private:
  /// Of leaves, the sums of the squares of their channels' scaled numbers.
  __device__ static void tell_squares(const RowReading& r, const OnePassPlan& plan, std::uint32_t number,
                                      Space& space) {
    const Leaf first(plan, r.order, number);
    const int thread = this_thread(), channel = thread % kRowThreads * kChannels;
    if (thread < Shape::kDim) space.largest[thread] = 0;
    __syncthreads();
    const auto* const rows =
        static_cast<const std::uint16_t*>(r.x.data) + row_offset(r.x, first.b, first.h, 0);
    std::uint32_t most[kChannels] = {};
    for_leaves(
        r, plan, rows, [] {},
        [&](const float(&v)[kChannels]) {
#pragma unroll
          for (int i = 0; i < kChannels; ++i) most[i] = max(most[i], size_bits(v[i]));
        },
        [](int) {});
#pragma unroll
    for (int i = 0; i < kChannels; ++i) atomicMax(space.largest + channel + i, most[i]);
    __syncthreads();

    float factor[kChannels], sum[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      factor[i] = quant::square_factor(float_of(space.largest[channel + i]));
    for_leaves(
        r, plan, rows,
        [&] {
#pragma unroll
          for (int i = 0; i < kChannels; ++i) sum[i] = -0.0f;  // -0 + x is x for every x
        },
        [&](const float(&v)[kChannels]) {
#pragma unroll
          for (int i = 0; i < kChannels; ++i) {
            const float y = v[i] * factor[i];
            sum[i] = sum[i] + y * y;
          }
        },
        [&](int leaf) {
          std::uint32_t* const to = Places::leaf(plan, number + static_cast<std::uint32_t>(leaf)) + channel;
#pragma unroll
          for (int i = 0; i < kChannels; ++i) ptx::tell(to + i, bits_of(sum[i]));
        });
    __syncthreads();
  }
  /// Of the unit, the orders of its channels' norms.
  __device__ static void find_orders(const OnePassPlan& plan, std::uint32_t number, Space& space) {
    const int part = this_thread() / kWarp, lane = this_thread() % kWarp;
    if (part < Shape::kDim / Ends::kParts) {
      const TreeEnd end = Ends::of(plan, plan.leaves_of_unit.quotient(number), part, lane);
      const int of_end = part * Ends::kParts + lane * 4;
      if (lane < 2)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          space.orders[of_end + i] = order_of({end.sum[i], float_of(space.largest[of_end + i])});
        }
    }
    __syncthreads();
  }

  static constexpr int kRowThreads = Shape::kDim / kChannels, kLeavesAtOnce = kBlockThreads / kRowThreads;
  static_assert(kBlockThreads / kWarp >= Shape::kDim / Ends::kParts, "a warp a part of a tree's end");

  /// note: kept, so that the compiler makes nothing of it before, where registers are short.
  __device__ static int this_thread() { return tile::kept(static_cast<int>(threadIdx.x)); }

  /// Eight codes of a row where attention reads V.
  __device__ static void put_packed(const PackedValues& packed, const Leaf& of, int row, int channel,
                                    const uint2& codes) {
    std::byte* const to =
        packed_block(packed, Shape::kDim, of.b, of.h, row / kLeafRows) + tile::slot_of_key(row % kLeafRows);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      to[(channel + i) * PackedValues::kPlaces] =
          static_cast<std::byte>((i < 4 ? codes.x : codes.y) >> i % 4 * 8);
  }
  /// The thread's channels of a row; zeros where that does not exist, or has NaN or Inf, which is told. Of
  /// the warp.
  __device__ static bool read_row(const RowReading& r, const std::uint16_t* from, bool exists,
                                  float (&v)[kChannels]) {
    Raw<std::uint16_t> raw{};
    if (exists) raw.v[0] = __ldg(reinterpret_cast<const uint4*>(from));
    to_floats(raw, r.x.dtype, v);
    const bool is_bad = largest_of_row(largest_bits(v), kRowThreads) >= kInfBits;
    if (is_bad) {
#pragma unroll
      for (float& x : v) x = 0;
    }
    return is_bad;
  }

  /// begin(), row(v) with each row of a leaf and with zeros after them, end(leaf), for the thread's leaves.
  /// Rows with NaN or Inf are zeros.
  template <class Begin, class Row, class End>
  __device__ static void for_leaves(const RowReading& r, const OnePassPlan& plan, const std::uint16_t* rows,
                                    const Begin& begin, const Row& row, const End& end) {
    const int own = this_thread() / kRowThreads, channel = this_thread() % kRowThreads * kChannels;
    const int leaves = plan.leaves_of_unit;
    for (int first = 0; first < leaves; first += kLeavesAtOnce) {
      const int leaf = first + own, length = min(kLeafRows, plan.tokens - leaf * kLeafRows);
      begin();
#pragma unroll 4
      for (int i = 0; i < kLeafRows; ++i) {  // of all threads, for lanes look at each other's numbers
        float v[kChannels];
        read_row(r, rows + (std::int64_t{leaf} * kLeafRows + i) * r.x.stride[2] + channel, i < length, v);
        row(v);
      }
      if (length > 0) end(leaf);
    }
  }
};

}  // namespace octet::cuda
