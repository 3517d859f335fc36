// V's channel exponents.
#include "cuda/ptx/global.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/squares.cuh"
#include "cuda/quant/subtrees.cuh"
#include "cuda/quant/sums.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "cuda/runtime/launch.cuh"
#include "quant/channel_exponent.h"

namespace octet::cuda {
namespace {

/// Calls body(v) with the rows of a leaf, one after the other. Of the warp; body is called for kLeaf rows at
/// most, and not beyond the leaf's own.
template <class Stored, class Body>
__device__ void for_rows(const RowReading& r, const TokenGroup& leaf, const Lane& lane, const Steps<1>& steps,
                         const float* factor, const Body& body) {
  constexpr int kAtOnce = 8 / sizeof(Stored);
  const int most = static_cast<int>(__reduce_max_sync(kAllLanes, static_cast<unsigned>(leaf.length)));
  for (int first = 0; first < most; first += kAtOnce) {
    RawRow<Stored, 1> raw[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t at = row_offset(r.x, leaf.b, leaf.h, leaf.begin + first + i);
      raw[i] = load_row<Stored, 1>(r, lane, first + i < leaf.length, at);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      float v[kChannels];
      to_floats(raw[i], r.x.dtype, v);
      transform(r, lane, steps, factor, v);
      body(v, first + i < leaf.length);
    }
  }
}

__device__ Place place_of(const TokenGroup& leaf) {
  Place p;
  p.b = leaf.b, p.h = leaf.h, p.s = leaf.s;
  p.exists = true;
  return p;
}

/// The ranges of a thread's channels, of all kinds of rows.
struct Range {
  std::uint32_t below[kChannels];  // 2 * bits - 1: without the sign, and 0 is the largest number
  float most[kChannels];

  __device__ Range() {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) below[i] = 2 * kInfBits - 1, most[i] = 0;
  }
  __device__ void see(const float (&v)[kChannels]) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      most[i] = fmaxf(most[i], fabsf(v[i]));  // note: a NaN is seen in the sum
      below[i] = min(below[i], 2 * bits_of(v[i]) - 1);
    }
  }
  __device__ std::uint32_t of(int i) const {
    return range_of_sizes((below[i] + 1) >> (kF32MantissaBits + 1), bits_of(most[i]));
  }
};

/// A thread's channels of a leaf whose rows are not shifted.
template <DType kType, class Stored>
__device__ void add_squares(const RowReading& r, const TokenGroup& leaf, int channel, LeafRing<Stored>& ring,
                            float (&sum)[kChannels], std::uint32_t (&range)[kChannels]) {
  if constexpr (sizeof(Stored) == 2) {
    PairRange seen[kChannels / 2];
    for_vectors<kType>(r, leaf, channel, ring, [&](const Raw<Stored>& raw, const float(&v)[kChannels]) {
    // The square of a number of 11 bits is exact (or the sum is not used, for it is too small or large), so
    // this is one rounding.
#pragma unroll
      for (int i = 0; i < kChannels; ++i) sum[i] = __fmaf_rn(v[i], v[i], sum[i]);
      seen[0].see(raw.v[0].x), seen[1].see(raw.v[0].y), seen[2].see(raw.v[0].z), seen[3].see(raw.v[0].w);
    });
#pragma unroll
    for (int i = 0; i < kChannels; ++i) range[i] = seen[i / 2].template of<kType>(i % 2);
  } else {
    Range seen;
    for_vectors<kType>(r, leaf, channel, ring, [&](const Raw<Stored>&, const float(&v)[kChannels]) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) sum[i] = sum[i] + v[i] * v[i];
      seen.see(v);
    });
#pragma unroll
    for (int i = 0; i < kChannels; ++i) range[i] = seen.of(i);
  }
}

/// The same of shifted rows.
template <class Stored>
__device__ void add_shifted_squares(const RowReading& r, const TokenGroup& leaf, int channel,
                                    LeafRing<Stored>& ring, float (&sum)[kChannels],
                                    std::uint32_t (&range)[kChannels]) {
  float shift[kChannels] = {};
  const float* from = static_cast<const float*>(r.shift.data) + r.unit_offset(r.shift, place_of(leaf));
#pragma unroll
  for (int i = 0; i < kChannels; ++i)
    if (channel + i < r.dim) shift[i] = from[channel + i];
  Range seen;
  for_vectors<Stored>(r, leaf, channel, ring, [&](const Raw<Stored>&, float(&v)[kChannels]) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      v[i] = v[i] - shift[i];
      sum[i] = sum[i] + v[i] * v[i];
    }
    seen.see(v);
  });
#pragma unroll
  for (int i = 0; i < kChannels; ++i) range[i] = seen.of(i);
}

/// Squares as they are, which takes one pass where they and those that are scaled are normal numbers, so that
/// the two sums are the same but for 2^2k. Rows that are not rotated.
template <class Stored>
__global__ __launch_bounds__(kLeafThreads) void square_leaves(const __grid_constant__ RowReading r,
                                                              const __grid_constant__ Subtrees trees,
                                                              const __grid_constant__ GroupWalk walk) {
  OCTET_DYNAMIC_SHARED(ring_memory, 16);
  __shared__ SubtreeSpace<kLeafThreads> space;
  auto& ring = *reinterpret_cast<LeafRing<Stored>*>(ring_memory);
  const Lane lane(r);
  const int channel = lane.first;
  const Begun begun(r.begin);
  const LeafPlace at(r, walk, lane, trees.leaves_log2);
  float sum[kChannels];
  std::uint32_t range[kChannels];
  clear(sum);
  if (at.leaf.length > 0 && channel < r.dim) {
    if (r.shift.data)
      add_shifted_squares(r, at.leaf, channel, ring, sum, range);
    else if constexpr (sizeof(Stored) == 4)
      add_squares<DType::f32>(r, at.leaf, channel, ring, sum, range);
    else if (r.x.dtype == DType::f16)
      add_squares<DType::f16>(r, at.leaf, channel, ring, sum, range);
    else
      add_squares<DType::bf16>(r, at.leaf, channel, ring, sum, range);
  }
  add_leaves<Ranges::joined>(lane, at.index, leaves_in(at.group.length), trees.leaves_log2, space, sum,
                             range);
  if (at.index == 0 && at.leaf.length > 0)
    store_subtree<Ranges::joined>(trees, at.slot, channel, r.dim, sum, range);
}

/// Scales of a sequence of a head or of its channels; of the block. amax: of the thread's channel, equalised.
__device__ void write_sequence_scales(const RowReading& r, const UnitPlace& at, const SequenceScaling& of,
                                      float amax, std::int64_t* shared) {
  const int channel = static_cast<int>(threadIdx.x);
  if (of.channel_groups == 1) {
    __syncthreads();  // nobody reads what warps had
    amax = float_of(static_cast<std::uint32_t>(largest_of_block(bits_of(amax), shared, kThreads / kWarp)));
  }
  if (channel >= of.channel_groups) return;
  Place p;
  p.b = at.b, p.h = at.h, p.s = at.s;
  const std::int64_t slot = of.groups.slot(r.order.sequences, static_cast<std::int32_t>(r.x.shape[1]), p);
  const quant::Scale scale = of.making.of(amax, 0);
  static_cast<float*>(of.scales.data)[at.offset(r, of.scales) + channel * of.scales.stride[3]] = scale.scale;
  of.rscale[slot * of.channel_groups + channel] = scale.rscale;
}

/// exponent[channel] of a sequence of a head from the channels' sums of scaled squares, and scales; of the
/// block, whose first threads have a channel each and the others none.
__device__ void write_exponents(const RowReading& r, const UnitPlace& at, const TensorView& exponent,
                                const SequenceScaling& scaling, float sum, float amax, std::int64_t* shared) {
  const int channel = static_cast<int>(threadIdx.x);
  const bool counts = channel < r.channels && amax > 0;
  const std::int64_t order = counts ? quant::norm_order(__fsqrt_rn(sum), amax) : INT64_MIN;
  const std::int64_t largest = largest_of_block(order, shared, kThreads / kWarp);
  const std::int32_t own = counts ? quant::channel_exponent(order, largest, amax) : 0;
  if (channel < r.channels) static_cast<std::int32_t*>(exponent.data)[at.offset(r, exponent) + channel] = own;
  if (scaling.rscale) write_sequence_scales(r, at, scaling, counts ? amax * power_of_two(-own) : 0, shared);
}

/// How the first try to add squares went, if there was one.
enum class Squares : std::int32_t { not_added, added };

/// The sums of squares in two passes over the rows, with NaN and Inf confined. note: a block is alone with
/// all tokens of a sequence and head, for this is rare.
template <class Stored>
__device__ void add_squares_again(const RowReading& r, const Subtrees& trees, const UnitPlace& at,
                                  const SubtreesOfSequence& of, const TensorView& exponent,
                                  const SequenceScaling& scaling, SubtreeSpace<kThreads>& space,
                                  std::int64_t* orders) {
  __shared__ std::uint32_t largest[kThreads];
  __shared__ Factors factors;
  factors.fill(r);
  const Lane lane(r);
  const int leaves = leaves_in(static_cast<int>(r.order.sequences.length(at.s)));
  Steps<1> steps;
  const auto for_leaves = [&](const auto& body) {
    for (int first = 0; first < leaves; first += lane.rows_at_once) {
      TokenGroup leaf;
      leaf.b = at.b, leaf.h = at.h, leaf.s = at.s;
      leaf.begin = static_cast<std::int32_t>(r.order.sequences.begin(at.s));
      leaf.length = static_cast<std::int32_t>(r.order.sequences.length(at.s));
      leaf = leaf_of(leaf, first + lane.row);
      if (leaf.length > 0) steps.enter(r, lane, place_of(leaf));
      body(leaf, first + lane.row);
    }
  };
  largest[threadIdx.x] = 0;
  __syncthreads();
  for_leaves([&](const TokenGroup& leaf, int) {
    std::uint32_t most[kChannels] = {};
    for_rows<Stored>(r, leaf, lane, steps, factors.of, [&](float(&v)[kChannels], bool exists) {
      confined(r, largest_of_row(largest_bits(v), r.lanes()), r.lanes(), v, nullptr);
#pragma unroll
      for (int i = 0; i < kChannels; ++i) most[i] = max(most[i], exists ? finite_bits(v[i]) : 0u);
    });
#pragma unroll
    for (int i = 0; i < kChannels; ++i) atomicMax(largest + lane.first + i, most[i]);
  });
  __syncthreads();
  for_leaves([&](const TokenGroup& leaf, int index) {
    float factor[kChannels], sum[kChannels];
    std::uint32_t range[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i) factor[i] = quant::square_factor(float_of(largest[lane.first + i]));
    clear(sum);
    for_rows<Stored>(r, leaf, lane, steps, factors.of, [&](float(&v)[kChannels], bool exists) {
      confined(r, largest_of_row(largest_bits(v), r.lanes()), r.lanes(), v, nullptr);
      if (!exists) return;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const float y = (is_finite(v[i]) ? v[i] : 0.0f) * factor[i];
        sum[i] = sum[i] + y * y;
      }
    });
    const int tree = index >> trees.leaves_log2, first = tree << trees.leaves_log2;
    add_leaves<Ranges::none>(lane, index - first, leaves - first, trees.leaves_log2, space, sum, range);
    if (index == first && leaf.length > 0)
      store_subtree<Ranges::none>(trees, of.first + tree, lane.first, r.channels, sum, range);
  });
  __syncthreads();
  const int channel = static_cast<int>(threadIdx.x);
  float sum = 0, amax = 0;
  if (channel < r.channels) {
    const float* from = trees.sum + of.first * trees.stride + channel;
    sum = tree_sum(of.count, [&](int i) { return from[i * trees.stride]; });
    amax = float_of(largest[channel]);
  }
  write_exponents(r, at, exponent, scaling, sum, amax, orders);
}

/// A block a sequence and head: its threads are channels, and parts of the sequence beside each other.
template <class Stored>
__global__ __launch_bounds__(kThreads) void finish_exponents(
    const __grid_constant__ RowReading r, const __grid_constant__ Subtrees trees, Squares squares,
    const __grid_constant__ TensorView exponent, const __grid_constant__ SequenceScaling scaling) {
  __shared__ SubtreeSpace<kThreads> space;
  __shared__ std::int64_t orders[kWarp];
  const Begun begun(r.begin);
  const UnitPlace at(r, blockIdx.x);
  const SubtreesOfSequence of = subtrees_of(r, trees, at.unit, at.s);
  SquareSum of_channel;
  of_channel.is_good = squares == Squares::added;
  if (squares == Squares::added) {
    const int width = r.lanes() * kChannels, parts = static_cast<int>(blockDim.x) / width;
    const int thread = static_cast<int>(threadIdx.x), channel = thread % width, part = thread / width;
    const int each = part_subtrees(of.count, parts), own = min(each, of.count - part * each);
    if (channel < r.channels && own > 0) {
      const std::int64_t from = (of.first + std::int64_t{part} * each) * trees.stride + channel;
      std::uint32_t range = kRangeOfZeros;
      constexpr int kAtOnce = 8;
      for (int i = 0; i < own; i += kAtOnce) {
        std::uint32_t some[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j)
          some[j] = ptx::load_now(trees.range + from + min(i + j, own - 1) * trees.stride);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) range = joined_range(range, some[j]);
      }
      space.range[0][thread] = range;
      space.sum[0][thread] =
          tree_sum(own, [&](int i) { return ptx::load_now(trees.sum + from + i * trees.stride); });
    }
    __syncthreads();
    if (part == 0 && channel < r.channels && of.count > 0) {
      const int used = (of.count + each - 1) / each;
      const float sum = tree_sum(used, [&](int i) { return space.sum[0][i * width + channel]; });
      std::uint32_t range = kRangeOfZeros;
      for (int i = 0; i < used; ++i) range = joined_range(range, space.range[0][i * width + channel]);
      of_channel = scaled_squares(sum, range);
    }
  }
  if (__syncthreads_and(of_channel.is_good))
    write_exponents(r, at, exponent, scaling, of_channel.sum, of_channel.amax, orders);
  else
    add_squares_again<Stored>(r, trees, at, of, exponent, scaling, space, orders);
}

}  // namespace

void launch_squares(const RowReading& rows, const Subtrees& trees, void* stream) {
  if (units_of(rows) == 0) return;
  if (rows.x.dtype == DType::f32)
    launch_leaves<float>(rows, trees, square_leaves<float>, stream);
  else
    launch_leaves<std::uint16_t>(rows, trees, square_leaves<std::uint16_t>, stream);
}

void launch_exponents(const RowReading& rows, const Subtrees& trees, const TensorView& exponent,
                      const SequenceScaling& scaling, void* stream) {
  const std::uint32_t units = units_of(rows);
  if (units == 0) return;
  const bool is_f32 = rows.x.dtype == DType::f32;
  const Squares squares = rows.hadamard > 0 ? Squares::not_added : Squares::added;
  runtime::launch(is_f32 ? finish_exponents<float> : finish_exponents<std::uint16_t>, units, kThreads, 0,
                  stream, rows, trees, squares, exponent, scaling);
}

}  // namespace octet::cuda
