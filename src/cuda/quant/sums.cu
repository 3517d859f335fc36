// K's mean and V's channel exponents.
#include "cuda/ptx/cp_async.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/squares.cuh"
#include "cuda/quant/sums.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "cuda/runtime/launch.cuh"

#include "quant/channel_exponent.h"
#include "quant/smooth.h"

namespace octet::cuda {
namespace {

using quant::TreeSum;

constexpr int kLeaf = static_cast<int>(TreeSum::kLeafTokens);

/// *from, not before and not after its neighbours: several loads in a row are on their way beside each other.
__device__ float load_now(const float* from) {
  float x;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(from));
  return x;
}
__device__ std::uint32_t load_now(const std::uint32_t* from) {
  std::uint32_t x;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(from));
  return x;
}

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

/// The leaf of a group, so many leaves from its first.
__device__ TokenGroup leaf_of(TokenGroup group, int index) {
  group.begin += index * kLeaf;
  group.length = max(min(group.length - index * kLeaf, kLeaf), 0);
  return group;
}

// --- Leaves of rows as they come: a vector of channels a thread, and no thread needs another's

/// Rows of a leaf on their way to a thread, in batches; no other thread looks at them.
template <class Stored>
struct LeafRing {
  static constexpr int kBatch = 16 / sizeof(Stored), kBatches = 4;  // 48 KB of a block on their way
  static constexpr int kWords = Raw<Stored>::kWords;
  uint4 rows[kBatches][kBatch][kWords][kLeafThreads];

  /// Rows [batch * kBatch, ...) of `count` rows from `from` on; a group of copies, perhaps empty.
  __device__ void ask_for(int batch, const Stored* from, std::int64_t stride, int count) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int row = batch * kBatch + i;
      if (row >= count) continue;
#pragma unroll
      for (int w = 0; w < kWords; ++w)
        ptx::copy_async(ptx::shared_address(&rows[batch % kBatches][i][w][threadIdx.x]),
                        reinterpret_cast<const uint4*>(from + row * stride) + w);
    }
    ptx::commit_copies();
  }
  __device__ Raw<Stored> row(int batch, int i) const {
    Raw<Stored> raw;
#pragma unroll
    for (int w = 0; w < kWords; ++w) raw.v[w] = rows[batch % kBatches][i][w][threadIdx.x];
    return raw;
  }
};

/// body(raw, v) with a thread's channels of each row of a leaf, one after the other.
template <DType kType, class Stored, class Body>
__device__ void for_vectors(const RowReading& r, const TokenGroup& leaf, int channel, LeafRing<Stored>& ring,
                            const Body& body) {
  constexpr int kBatch = LeafRing<Stored>::kBatch, kAhead = LeafRing<Stored>::kBatches - 1;
  const Stored* from = static_cast<const Stored*>(r.x.data) + row_offset(r.x, leaf.b, leaf.h, leaf.begin);
  const std::int64_t stride = r.x.stride[2];
  const auto use = [&](const Raw<Stored>& raw) {
    float v[kChannels];
    to_floats(raw, kType, v);
    body(raw, v);
  };
  if (!r.in_vectors || channel + kChannels > r.dim) {
    for (int row = 0; row < leaf.length; ++row) use(load_vector(r, from + row * stride, channel));
    return;
  }
  from += channel;
#pragma unroll
  for (int batch = 0; batch < kAhead; ++batch) ring.ask_for(batch, from, stride, leaf.length);
  for (int batch = 0; batch * kBatch < leaf.length; ++batch) {
    ptx::wait_copies<kAhead - 1>();
    const int left = leaf.length - batch * kBatch;
    if (left >= kBatch) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) use(ring.row(batch, i));
    } else {
      for (int i = 0; i < left; ++i) use(ring.row(batch, i));
    }
    ring.ask_for(batch + kAhead, from, stride, leaf.length);
  }
}

template <class Stored, class Body>
__device__ void for_vectors(const RowReading& r, const TokenGroup& leaf, int channel, LeafRing<Stored>& ring,
                            const Body& body) {
  if constexpr (sizeof(Stored) == 4)
    for_vectors<DType::f32>(r, leaf, channel, ring, body);
  else if (r.x.dtype == DType::f16)
    for_vectors<DType::f16>(r, leaf, channel, ring, body);
  else
    for_vectors<DType::bf16>(r, leaf, channel, ring, body);
}

/// -0 + x is x for every x.
template <int kCount>
__device__ void clear(float (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] = -0.0f;
}

/// A row of a block's threads: its subtree, and the leaf that is its own.
struct LeafPlace {
  TokenGroup group;  // of the subtree; length 0: none
  TokenGroup leaf;
  std::uint32_t slot;
  int index;  // of the leaf

  __device__ LeafPlace(const RowReading& r, const GroupWalk& walk, const Lane& lane, int leaves_log2) {
    const std::uint32_t leaf_number =
        blockIdx.x * static_cast<std::uint32_t>(lane.rows_at_once) + static_cast<std::uint32_t>(lane.row);
    const std::uint32_t number = leaf_number >> leaves_log2;
    index = static_cast<int>(leaf_number - (number << leaves_log2));
    slot = 0;
    if (number >= walk.count) return;
    slot = walk.slot(number);
    group = group_at(walk.groups, r.order.sequences, r.order.heads, slot);
    leaf = leaf_of(group, index);
  }
};

/// What a block's threads add up: a word a channel and thread.
template <int kBlockThreads>
struct SubtreeSpace {
  float sum[kChannels][kBlockThreads];
  std::uint32_t range[kChannels][kBlockThreads];
};

enum class Ranges { none, joined };

/// Adds the leaves of each subtree, one a row of threads: afterwards the row of its first leaf has the sums
/// (and ranges). index: the row's leaf in its subtree, which has `leaves` of them; of the block.
template <Ranges kRanges, int kBlockThreads>
__device__ void add_leaves(const Lane& lane, int index, int leaves, int leaves_log2,
                           SubtreeSpace<kBlockThreads>& space, float (&sum)[kChannels],
                           std::uint32_t (&range)[kChannels]) {
  const int thread = static_cast<int>(threadIdx.x), row_threads = lane.step / kChannels;
  for (int level = 0; level < leaves_log2; ++level) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      space.sum[i][thread] = sum[i];
      if (kRanges == Ranges::joined) space.range[i][thread] = range[i];
    }
    __syncthreads();
    const int distance = 1 << level, right = thread + distance * row_threads;
    if (index % (2 * distance) == 0 && index + distance < leaves) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        sum[i] = sum[i] + space.sum[i][right];
        if (kRanges == Ranges::joined) range[i] = joined_range(range[i], space.range[i][right]);
      }
    }
    __syncthreads();
  }
}

__device__ int leaves_in(int tokens) { return (tokens + kLeaf - 1) / kLeaf; }

template <Ranges kRanges>
__device__ void store_subtree(const Subtrees& trees, std::int64_t slot, int channel, int channels,
                              const float (&sum)[kChannels], const std::uint32_t (&range)[kChannels]) {
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    if (channel + i >= channels) continue;
    const std::int64_t at = slot * trees.stride + channel + i;
    trees.sum[at] = sum[i];
    if (kRanges == Ranges::joined) trees.range[at] = range[i];
  }
}

// --- K's mean

template <class Stored>
__global__ __launch_bounds__(kLeafThreads) void sum_leaves(const __grid_constant__ RowReading r,
                                                           const __grid_constant__ Subtrees trees,
                                                           const __grid_constant__ GroupWalk walk) {
  extern __shared__ uint4 ring_memory[];
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
    const float factor = quant::mean_factor(at.leaf.sequence_length);
    for_vectors<Stored>(r, at.leaf, channel, ring, [&](const Raw<Stored>&, const float(&v)[kChannels]) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) sum[i] = sum[i] + v[i] * factor;
    });
    // NaN and Inf are rare: where a sum comes out neither, none was there.
    if (largest_bits(sum) >= kInfBits) {
      clear(sum);
      for_vectors<Stored>(r, at.leaf, channel, ring, [&](const Raw<Stored>&, const float(&v)[kChannels]) {
#pragma unroll
        for (int i = 0; i < kChannels; ++i) sum[i] = sum[i] + (is_finite(v[i]) ? v[i] : 0.0f) * factor;
      });
    }
  }
  add_leaves<Ranges::none>(lane, at.index, leaves_in(at.group.length), trees.leaves_log2, space, sum, range);
  if (at.index == 0 && at.leaf.length > 0)
    store_subtree<Ranges::none>(trees, at.slot, channel, r.dim, sum, range);
}

/// Threads of a block that ends trees: channels, and aligned parts of a sequence beside each other.
constexpr int kMeanChannels = 32, kMeanParts = 8;

/// Subtrees of a part: a power of two, so that a part is one too.
__device__ int part_subtrees(int subtrees, int parts) {
  int part = 8;  // fewer would leave loads of tree_sum unused
  while (part * parts < subtrees) part *= 2;
  return part;
}

struct SubtreesOfSequence {
  std::int64_t first;  // slot
  int count;
};

__device__ SubtreesOfSequence subtrees_of(const RowReading& r, const Subtrees& trees, std::int64_t unit,
                                          std::int32_t s) {
  const Sequences& sequences = r.order.sequences;
  const int leaves = leaves_in(static_cast<int>(sequences.length(s)));
  return {unit * trees.groups.per_head + trees.groups.first(sequences, s),
          (leaves + (1 << trees.leaves_log2) - 1) >> trees.leaves_log2};
}

/// A sequence of a head, numbered (sequence, head).
struct UnitPlace {
  std::int32_t b, h, s;
  std::int64_t unit;  // in Groups

  __device__ UnitPlace(const RowReading& r, std::uint32_t index) {
    const auto heads = static_cast<std::uint32_t>(r.x.shape[1]);
    s = static_cast<std::int32_t>(index / heads);
    h = static_cast<std::int32_t>(index % heads);
    b = r.order.sequences.cu_seqlens ? 0 : s;
    unit = std::int64_t{b} * heads + h;
  }
  __device__ std::int64_t offset(const RowReading& r, const TensorView& of) const {
    return row_offset(of, b, h, r.order.sequences.cu_seqlens ? s : 0);
  }
};

__global__ __launch_bounds__(kThreads, 1) void finish_mean(const __grid_constant__ RowReading r,
                                                           const __grid_constant__ Subtrees trees,
                                                           const __grid_constant__ TensorView mean) {
  __shared__ float parts[kMeanParts][kMeanChannels];
  const Begun begun(r.begin);
  const std::uint32_t per_unit = (static_cast<std::uint32_t>(r.dim) + kMeanChannels - 1) / kMeanChannels;
  const UnitPlace at(r, blockIdx.x / per_unit);
  const int part = static_cast<int>(threadIdx.x) / kMeanChannels,
            lane = static_cast<int>(threadIdx.x) % kMeanChannels;
  const int channel = static_cast<int>(blockIdx.x % per_unit) * kMeanChannels + lane;
  const SubtreesOfSequence of = subtrees_of(r, trees, at.unit, at.s);
  const int each = part_subtrees(of.count, kMeanParts);
  const int own = min(each, of.count - part * each);
  if (channel < r.dim && own > 0) {
    const float* from = trees.sum + (of.first + std::int64_t{part} * each) * trees.stride + channel;
    parts[part][lane] = tree_sum(own, [&](int i) { return load_now(from + i * trees.stride); });
  }
  __syncthreads();
  if (part > 0 || channel >= r.dim) return;
  const std::int64_t length = r.order.sequences.length(at.s);
  const float sum = tree_sum((of.count + each - 1) / each, [&](int i) { return parts[i][lane]; });
  static_cast<float*>(mean.data)[at.offset(r, mean) + channel] =
      length == 0 ? 0.0f : quant::mean_of_sum(sum, length);
}

__global__ __launch_bounds__(kThreads) void write_anchor(const __grid_constant__ RowReading r,
                                                         const __grid_constant__ TensorView anchor,
                                                         const __grid_constant__ TensorView mean) {
  const Begun begun(r.begin);
  const UnitPlace at(r, blockIdx.x);
  const int channel = static_cast<int>(threadIdx.x);
  if (channel >= r.dim) return;
  const Sequences& sequences = r.order.sequences;
  const TensorView& from = anchor.data ? anchor : r.x;
  const std::int64_t offset = anchor.data ? row_offset(anchor, anchor.shape[0] == 1 ? 0 : at.b, at.h, 0)
                                          : row_offset(r.x, at.b, at.h, sequences.begin(at.s));
  float v = 0;
  if (anchor.data || sequences.length(at.s) > 0) {
    const std::int64_t place = offset + channel * from.stride[3];
    v = from.dtype == DType::f32   ? static_cast<const float*>(from.data)[place]
        : from.dtype == DType::f16 ? f32_from_f16(static_cast<const std::uint16_t*>(from.data)[place])
                                   : f32_from_bf16(static_cast<const std::uint16_t*>(from.data)[place]);
  }
  static_cast<float*>(mean.data)[at.offset(r, mean) + channel] = is_finite(v) ? v : 0.0f;
}

// --- V's channel exponents

/// The exponent field of the least number of a channel that is not 0 (Inf's where there is none) and of the
/// largest, as Subtrees::range has them. Of all kinds of rows.
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
    return (below[i] + 1) >> (kF32MantissaBits + 1) | bits_of(most[i]) >> kF32MantissaBits << 8;
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
  extern __shared__ uint4 ring_memory[];
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

/// exponent[channel] of a sequence of a head from the channels' sums of scaled squares; of the block, whose
/// first threads have a channel each and the others none.
__device__ void write_exponents(const RowReading& r, const UnitPlace& at, const TensorView& exponent,
                                float sum, float amax, std::int64_t* shared) {
  const int channel = static_cast<int>(threadIdx.x);
  const bool counts = channel < r.channels && amax > 0;
  const std::int64_t order = counts ? quant::norm_order(__fsqrt_rn(sum), amax) : INT64_MIN;
  const std::int64_t largest = largest_of_block(order, shared, kThreads / kWarp);
  if (channel < r.channels)
    static_cast<std::int32_t*>(exponent.data)[at.offset(r, exponent) + channel] =
        quant::channel_exponent(order, largest, amax);
}

/// How the first try to add squares went, if there was one.
enum class Squares : std::int32_t { not_added, added };

/// The sums of squares in two passes over the rows, with NaN and Inf confined. note: a block is alone with
/// all tokens of a sequence and head, for this is rare.
template <class Stored>
__device__ void add_squares_again(const RowReading& r, const Subtrees& trees, const UnitPlace& at,
                                  const SubtreesOfSequence& of, const TensorView& exponent,
                                  SubtreeSpace<kThreads>& space, std::int64_t* orders) {
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
  write_exponents(r, at, exponent, sum, amax, orders);
}

/// A block a sequence and head: its threads are channels, and parts of the sequence beside each other.
template <class Stored>
__global__ __launch_bounds__(kThreads) void finish_exponents(const __grid_constant__ RowReading r,
                                                             const __grid_constant__ Subtrees trees,
                                                             Squares squares,
                                                             const __grid_constant__ TensorView exponent) {
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
          some[j] = load_now(trees.range + from + min(i + j, own - 1) * trees.stride);
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) range = joined_range(range, some[j]);
      }
      space.range[0][thread] = range;
      space.sum[0][thread] =
          tree_sum(own, [&](int i) { return load_now(trees.sum + from + i * trees.stride); });
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
    write_exponents(r, at, exponent, of_channel.sum, of_channel.amax, orders);
  else
    add_squares_again<Stored>(r, trees, at, of, exponent, space, orders);
}

/// A kernel of leaves.
template <class Stored, class Kernel>
void launch_leaves(const RowReading& rows, const Subtrees& trees, Kernel* kernel, void* stream) {
  constexpr int kBytes = sizeof(LeafRing<Stored>);
  const GroupWalk walk(trees.groups, rows.x);
  const std::int64_t leaves = std::int64_t{walk.count} << trees.leaves_log2,
                     of_block = kLeafThreads >> rows.lanes_log2;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  runtime::launch(kernel, static_cast<std::uint32_t>((leaves + of_block - 1) / of_block), kLeafThreads,
                  kBytes, stream, rows, trees, walk);
}

std::uint32_t units_of(const RowReading& rows) {
  return static_cast<std::uint32_t>(rows.order.sequences.count * rows.x.shape[1]);
}

}  // namespace

int subtree_leaves_log2(const std::array<std::int64_t, 4>& shape, std::int64_t packed_sequences,
                        std::int64_t channels) {
  const std::int64_t sequences = packed_sequences > 0 ? packed_sequences : 1;
  const std::int64_t tokens = (shape[2] + sequences - 1) / sequences;  // of each, about
  const auto rows_at_once = [&](int log2) { return (kLeafThreads >> log2) * kChannels >= channels; };
  int log2 = 0;
  while (rows_at_once(log2 + 1) && (std::int64_t{kLeaf} << log2) < tokens) ++log2;
  return log2;
}

void launch_sums(const RowReading& rows, const Subtrees& trees, void* stream) {
  if (units_of(rows) == 0) return;
  if (rows.x.dtype == DType::f32)
    launch_leaves<float>(rows, trees, sum_leaves<float>, stream);
  else
    launch_leaves<std::uint16_t>(rows, trees, sum_leaves<std::uint16_t>, stream);
}

void launch_mean(const RowReading& rows, const Subtrees& trees, const TensorView& mean, void* stream) {
  const std::uint32_t units = units_of(rows);
  if (units == 0) return;
  const auto columns = static_cast<std::uint32_t>((rows.dim + kMeanChannels - 1) / kMeanChannels);
  runtime::launch(finish_mean, units * columns, kThreads, 0, stream, rows, trees, mean);
}

void launch_anchor(const RowReading& rows, const TensorView& anchor, const TensorView& mean, void* stream) {
  if (const std::uint32_t units = units_of(rows); units > 0)
    runtime::launch(write_anchor, units, kThreads, 0, stream, rows, anchor, mean);
}

void launch_squares(const RowReading& rows, const Subtrees& trees, void* stream) {
  if (units_of(rows) == 0) return;
  if (rows.x.dtype == DType::f32)
    launch_leaves<float>(rows, trees, square_leaves<float>, stream);
  else
    launch_leaves<std::uint16_t>(rows, trees, square_leaves<std::uint16_t>, stream);
}

void launch_exponents(const RowReading& rows, const Subtrees& trees, const TensorView& exponent,
                      void* stream) {
  const std::uint32_t units = units_of(rows);
  if (units == 0) return;
  const bool is_f32 = rows.x.dtype == DType::f32;
  const Squares squares = rows.hadamard > 0 ? Squares::not_added : Squares::added;
  runtime::launch(is_f32 ? finish_exponents<float> : finish_exponents<std::uint16_t>, units, kThreads, 0,
                  stream, rows, trees, squares, exponent);
}

}  // namespace octet::cuda
