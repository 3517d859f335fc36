// Rows of a sequence that a block of threads holds in shared memory, and what its rows have in common: the
// mean of each channel, or what each is multiplied by. Of a sequence that one block does not hold, those of a
// cluster hold a part each, of whole leaves, and read each other's sums. The steps are those of sums.cu and
// exponents.cu, with the same bits.
#pragma once
#include <cstdint>

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/quant/leaf_sums.cuh"
#include "cuda/quant/segments.cuh"
#include "cuda/quant/short_sequences.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "quant/channel_exponent.h"
#include "quant/mean.h"

namespace octet::cuda {

inline constexpr int kMostLeavesOfPart = 4, kMostParts = 8, kMostGroups = 32;

/// What scales a call's operands have. note: kernels of their own, for by one tokens' calls took 1 to 4 %
/// longer (docs/cuda-measurements.md).
enum class HeldScales : std::int32_t {
  of_tokens,
  of_groups_too,  ///< of key blocks of K, of V's sequences or their channels
};

/// Which rows a block of threads has: part number `part` of a sequence of a head, of `parts` of them. Those
/// of an operand with a statistic are a cluster.
struct HeldPart {
  std::int32_t b, h, part, parts;
  std::int32_t first, rows;  ///< of the sequence's tokens
};

/// Shared memory of a block. Lines are segments of 64 channels, a tile has 32 of them; behind them leaves.
template <class Shape>
struct alignas(128) HeldSpace {
  /// A leaf's words of each channel, together, for who is not of the block asks for both at once.
  struct alignas(8) LeafWords {
    std::uint32_t sum, range;
  };
  struct Leaf {
    LeafWords of[Shape::kDim];
  };
  using OfChannels = float4[Shape::kLanes][Shape::kCount / 4 + 1];  // segments begin in different banks

  OfChannels words, rscales;  ///< rscales: where all of a sequence has the same
  uint4 flips[Shape::kDim / kChannels];
  std::uint32_t largest[Shape::kDim];  ///< the part's largest |x| as bits, where squares are added again
  std::int32_t of_warps[kWarp];
  std::uint32_t peaks[kMostGroups];  ///< the largest bits of groups of tokens with a scale or a floor

  OCTET_HD static int lines_of(int rows) { return (rows + Shape::kRows - 1) / Shape::kRows * kWarp; }
  static std::size_t bytes(int rows) {
    constexpr int kLineBytes = 128;
    const int leaves = (rows + kLeafRows - 1) / kLeafRows;
    return sizeof(HeldSpace) + static_cast<std::size_t>(lines_of(rows)) * kLineBytes + leaves * sizeof(Leaf);
  }
  __device__ uint4* lines() { return reinterpret_cast<uint4*>(this + 1); }
  /// rows: that the block has room for, as many in all of a cluster.
  __device__ Leaf* leaves(int rows) { return reinterpret_cast<Leaf*>(lines() + lines_of(rows) * kChannels); }
};

template <class Shape, Work kWork, HeldScales kScales, DType kType>
class HeldRows {
 public:
  using Space = HeldSpace<Shape>;

  __device__ HeldRows(const ShortOperand& x, const HeldPart& at, Space& space)
      : r_(x.rows), k_(x.coding), at_(at), room_(x.rows_of_part), space_(space) {}

 protected:
  static constexpr int kDim = Shape::kDim;

  __device__ static int lane() { return RowSpace<Shape>::lane(); }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
  __device__ static int warps() { return static_cast<int>(blockDim.x) / kWarp; }
  __device__ int tokens() const { return static_cast<int>(r_.x.shape[2]); }
  __device__ int tiles() const { return (at_.rows + Shape::kRows - 1) / Shape::kRows; }
  __device__ std::int64_t unit_offset(const TensorView& of) const { return row_offset(of, at_.b, at_.h, 0); }
  __device__ uint4* tile_lines(int tile) const { return space_.lines() + tile * kWarp * kChannels; }

  /// The part's rows on their way, and what needs none of them.
  __device__ void stage() const {
    constexpr int kPieces = kDim / kChannels;
    const int thread = static_cast<int>(threadIdx.x), row = thread / kPieces, piece = thread % kPieces;
    const int at_once = static_cast<int>(blockDim.x) / kPieces;
    const auto* from = static_cast<const std::uint16_t*>(r_.x.data) +
                       row_offset(r_.x, at_.b, at_.h, at_.first + row) + piece * kChannels;
    const std::int64_t step = at_once * r_.x.stride[2];
    // note: rows so far apart have their places in one order (row_place()).
    std::uint32_t to =
        ptx::shared_address(space_.lines()) + row_place(row * Shape::kLanes + piece / 8, piece % 8);
    const std::uint32_t further = static_cast<std::uint32_t>(at_once) * Shape::kLanes * 128;
    ptx::wait_for_earlier_kernels();
    ptx::let_the_next_kernel_start();
    for (int i = row; i < at_.rows; i += at_once, from += step, to += further) ptx::copy_async(to, from);
    ptx::commit_copies();
    if (thread < kPieces) space_.flips[thread] = flips(thread);
    if (thread < kMostGroups) space_.peaks[thread] = 0;
    ptx::wait_copies<0>();
    __syncthreads();
  }

  /// What each channel is shifted or multiplied by, in the words of the space, as eight_numbers() wants it,
  /// and what of scales is the same in all of the sequence.
  __device__ void find_words() const {
    if constexpr (kWork == Work::shifted_and_rotated) {
      if (r_.shift.data) find_mean();
    } else if constexpr (kWork == Work::multiplied) {
      if (r_.exponent.data || has_one_scale())
        find_channels();
      else
        put(space_.words, 1.0f);
    }
    __syncthreads();
  }
  /// Whether all tokens of the sequence have one scale, or one a channel.
  __device__ bool has_one_scale() const { return has_group_scales() && k_.groups.tokens == 0; }
  __device__ bool has_group_scales() const {
    return kScales == HeldScales::of_groups_too && k_.scale_of == ScaleOf::group;
  }

  /// Whether the thread has a channel, its own number.
  __device__ static bool has_channel() { return threadIdx.x < kDim; }
  __device__ static int channel() { return static_cast<int>(threadIdx.x); }

 private:
  using Leaf = typename Space::Leaf;
  using LeafWords = typename Space::LeafWords;

  /// Of eight channels, as Signs has them.
  __device__ uint4 flips(int vector) const {
    const std::uint32_t bits = r_.sign[vector / 4] >> vector % 4 * kChannels;
    const auto pair = [&](int c) { return (bits >> c & 1u) << 15 | (bits >> (c + 1) & 1u) << 31; };
    return {pair(0), pair(2), pair(4), pair(6)};
  }
  /// Of the thread's channel.
  __device__ static void put(typename Space::OfChannels& to, float word) {
    if (!has_channel()) return;
    const int c = channel();
    reinterpret_cast<float*>(to)[c / Shape::kCount * (Shape::kCount + 4) + c % Shape::kCount] = word;
  }

  // --- Of the cluster, or the block where that has all of the sequence

  /// Until all have come here.
  __device__ void meet() const {
    if (at_.parts == 1) {
      __syncthreads();
    } else {
      ptx::arrive_at_cluster();
      ptx::wait_for_cluster();
    }
  }
  __device__ std::uint32_t word_of(int part, const std::uint32_t& own) const {
    if (at_.parts == 1) return own;
    return ptx::load_word_of(static_cast<std::uint32_t>(part), ptx::shared_address(&own));
  }
  __device__ int leaf_count() const { return (tokens() + kLeafRows - 1) / kLeafRows; }
  __device__ Leaf* leaves() const { return space_.leaves(room_); }
  /// The sum over the sequence's leaves, and see(range) of each of them, some more than once, of the thread's
  /// channel. note: several on their way at a time, for those of other blocks take some 500 cycles each.
  template <class See>
  __device__ float sum_of_leaves(const See& see) const {
    const auto term_of = [&](const auto& words) {
      return [&](int i) {
        const LeafWords leaf = words(i);
        see(leaf.range);
        return float_of(leaf.sum);
      };
    };
    if (at_.parts == 1) {
      const Leaf* const own = leaves();
      return sum_of_some<kMostLeavesOfPart, kMostLeavesOfPart>(
          leaf_count(), term_of([&](int i) { return own[i].of[channel()]; }));
    }
    // Leaves of a part are a power of two then.
    const int log2_of_part = __ffs(room_ / kLeafRows) - 1, last_of_part = (1 << log2_of_part) - 1;
    const std::uint32_t own = ptx::shared_address(&leaves()[0].of[channel()]);
    constexpr int kAtOnce = 8;
    return sum_of_some<kMostLeavesOfPart * kMostParts, kAtOnce>(
        leaf_count(), term_of([&](int i) {
          const uint2 words = ptx::load_two_of(static_cast<std::uint32_t>(i >> log2_of_part),
                                               own + (i & last_of_part) * static_cast<int>(sizeof(Leaf)));
          return LeafWords{words.x, words.y};
        }));
  }
  /// Of the block's first threads, that have a channel.
  __device__ std::int32_t largest_of_channels(std::int32_t own) const {
    own = __reduce_max_sync(kAllLanes, own);
    if (lane() == 0) space_.of_warps[warp()] = own;
    __syncthreads();
    std::int32_t largest = space_.of_warps[0];
    for (int i = 1; i < kDim / kWarp; ++i) largest = max(largest, space_.of_warps[i]);
    return largest;
  }

  // --- Statistics

  using OwnColumn = Column<SegmentLines<Shape>>;
  static constexpr int kTokensAtOnce = 32;

  /// put(column, leaf, channel) of the part's leaves, half a segment a warp.
  template <class Put>
  __device__ void sum_leaves(const Put& put) const {
    constexpr int kHalves = 2 * Shape::kLanes;
    const int all = (at_.rows + kLeafRows - 1) / kLeafRows * kHalves;
    for (int i = warp(); i < all; i += warps()) {
      const int leaf = i / kHalves, half = i % kHalves;
      const int of_segment = half % 2 * kWarp + lane();
      const OwnColumn column{
          ptx::shared_address(space_.lines() + leaf * kLeafRows * Shape::kLanes * kChannels) +
              row_place(half / 2, of_segment / kChannels) + of_segment % kChannels * 2,
          min(kLeafRows, at_.rows - leaf * kLeafRows)};
      put(column, leaves()[leaf], half * kWarp + lane());
    }
    meet();
  }

  __device__ void find_mean() const {
    const float factor = quant::mean_factor(tokens());
    sum_leaves([&](const OwnColumn& column, Leaf& leaf, int at) {
      leaf.of[at].sum = bits_of(factored_sum<kType, kTokensAtOnce>(column, factor));
    });
    float mean = 0;
    if (has_channel()) {
      mean = quant::mean_of_sum(sum_of_leaves([](std::uint32_t) {}), tokens());
      if (at_.part == 0) static_cast<float*>(r_.shift.data)[unit_offset(r_.shift) + channel()] = mean;
    }
    leave();
    const int c = channel() % kDim;
    put(space_.words, float_of(bits_of(mean) ^ r_.sign[c / kWarp] >> c % kWarp << 31));
  }

  __device__ void find_channels() const {
    sum_leaves([&](const OwnColumn& column, Leaf& leaf, int at) {
      if (!r_.exponent.data) {
        leaf.of[at] = {0, largest_range<kType, kTokensAtOnce>(column)};
        return;
      }
      const SquaresOfChannel of = square_sum<kType, kTokensAtOnce>(column);
      leaf.of[at] = {bits_of(of.sum), of.range};
    });
    SquareSum squares;
    if (has_channel()) {
      std::uint32_t range = kRangeOfZeros;
      const float sum = sum_of_leaves([&](std::uint32_t of) { range = joined_range(range, of); });
      squares = r_.exponent.data ? scaled_squares(sum, range) : largest_alone(range);
    }
    // note: all blocks of a cluster have the same numbers.
    if (!__syncthreads_and(squares.is_good)) [[unlikely]]
      squares = add_squares_again();
    leave();
    const float factor = equaliser(squares);
    put(space_.words, factor);
    if (has_one_scale()) put_scale(squares.amax * factor);
  }
  /// What the thread's channel is multiplied by before its scale.
  __device__ float equaliser(const SquareSum& of) const {
    if (!r_.exponent.data) return 1;
    const std::int32_t order = order_of(of);
    const std::int32_t exponent = quant::channel_exponent(order, largest_of_channels(order), of.amax);
    if (has_channel() && at_.part == 0)
      static_cast<std::int32_t*>(r_.exponent.data)[unit_offset(r_.exponent) + channel()] = exponent;
    return power_of_two(-exponent);
  }
  /// amax: of the thread's channel.
  __device__ void put_scale(float amax) const {
    const bool by_channel = k_.channel_groups > 1;
    if (!by_channel) {
      __syncthreads();  // nobody reads what warps had
      amax = float_of(as_unsigned(largest_of_channels(as_signed(bits_of(amax)))));
    }
    const quant::Scale scale = k_.making.of(amax, 0);
    put(space_.rscales, scale.rscale);
    if (at_.part > 0 || !has_channel() || (!by_channel && channel() > 0)) return;
    static_cast<float*>(k_.scales.data)[unit_offset(k_.scales) + channel() * k_.scales.stride[3]] =
        scale.scale;
  }

  /// The block reads nobody's shared memory any more.
  __device__ void leave() const {
    if (at_.parts > 1) ptx::arrive_at_cluster();
  }

  // --- Where squares as they are do not do, which is rare: two more passes, rows with NaN or Inf as zeros

  __device__ SquareSum add_squares_again() const {
    clear_bad_rows();
    SquareSum squares;
    std::uint32_t most = 0;
    if (has_channel()) {
      for (int row = 0; row < at_.rows; ++row) most = max(most, size_bits(number(row)));
      space_.largest[channel()] = most;
    }
    meet();
    if (has_channel())
      for (int i = 0; i < at_.parts; ++i) most = max(most, word_of(i, space_.largest[channel()]));
    const float factor = quant::square_factor(float_of(most));
    if (has_channel()) {
      for (int first = 0; first < at_.rows; first += kLeafRows) {
        float sum = -0.0f;  // -0 + x is x for every x
        for (int row = first; row < min(first + kLeafRows, at_.rows); ++row) {
          const float y = number(row) * factor;
          sum = sum + y * y;
        }
        leaves()[first / kLeafRows].of[channel()].sum = bits_of(sum);
      }
    }
    meet();
    if (has_channel()) squares.sum = sum_of_leaves([](std::uint32_t) {}), squares.amax = float_of(most);
    return squares;
  }
  /// Of the thread's channel.
  __device__ float number(int row) const {
    const int c = channel(), line = row * Shape::kLanes + c / Shape::kCount;
    const auto* at =
        reinterpret_cast<const std::uint16_t*>(reinterpret_cast<const unsigned char*>(space_.lines()) +
                                               row_place(line, c % Shape::kCount / kChannels));
    const std::uint32_t code = at[c % kChannels];
    return low_number<kType>(code);
  }
  __device__ void clear_bad_rows() const {
    __syncthreads();
    for (int tile = warp(); tile < tiles(); tile += warps()) {
      auto* const bytes = reinterpret_cast<unsigned char*>(tile_lines(tile));
      std::uint32_t peak = 0;
#pragma unroll 1
      for (int i = 0; i < Shape::kCount / kChannels; ++i) {
        float v[kChannels];
        to_floats(Raw<std::uint16_t>{{*reinterpret_cast<const uint4*>(bytes + row_place(lane(), i))}}, kType,
                  v);
        peak = max(peak, largest_bits(v));
      }
      peak = largest_of_row(peak, Shape::kLanes);
      if (peak < kInfBits || tile * Shape::kRows + lane() / Shape::kLanes >= at_.rows) continue;
      if (k_.non_finite) *k_.non_finite = 1;
#pragma unroll 1
      for (int i = 0; i < Shape::kCount / kChannels; ++i)
        *reinterpret_cast<uint4*>(bytes + row_place(lane(), i)) = {};
    }
    __syncthreads();
  }

 protected:
  const RowReading& r_;
  const Coding& k_;
  const HeldPart at_;
  const int room_;  ///< rows that a block may have
  Space& space_;
};

}  // namespace octet::cuda
