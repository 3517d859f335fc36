// K's mean and V's channel exponents.
#include "cuda/ptx/cp_async.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/sums.cuh"

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

/// term(i) for i in [0, count), added as a tree adds its leaves: neighbours, level by level, an odd last one
/// as it is. Eight at once, so that their loads are on their way beside each other.
template <class Term>
__device__ float tree_sum(int count, const Term& term) {
  constexpr int kAtOnce = 8, kLevels = 28;
  float waiting[kLevels];  // [level]: a subtree of 8 * 2^level that waits for its right neighbour
  std::uint32_t occupied = 0;
  float sum = 0;
  for (int first = 0; first < count; first += kAtOnce) {
    float a[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      a[i] = term(min(first + i, count - 1));  // no branch, so that loads stay together
    int left = min(kAtOnce, count - first);
#pragma unroll
    for (int half = kAtOnce / 2; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) a[i] = 2 * i + 1 < left ? a[2 * i] + a[2 * i + 1] : a[2 * i];
      left = (left + 1) / 2;
    }
    sum = a[0];
    if (first + kAtOnce >= count) break;  // the last subtree, which is the right one of all that wait
    int level = 0;
    for (; occupied >> level & 1; ++level) {
      sum = waiting[level] + sum;
      occupied &= ~(1u << level);
    }
    waiting[level] = sum;
    occupied |= 1u << level;
  }
  for (int level = 0; occupied >> level; ++level)
    if (occupied >> level & 1) sum = waiting[level] + sum;
  return sum;
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

__device__ TokenGroup leaf_at(const RowReading& r, const Leaves& leaves, std::int64_t slot) {
  if (slot >= leaves.groups.slots()) return {};
  return group_at(leaves.groups, r.order.sequences, static_cast<std::int32_t>(r.x.shape[1]),
                  static_cast<std::uint32_t>(slot));
}

// --- Leaves of rows as they come: a vector of channels a thread, and no thread needs another's

constexpr int kLeafThreads = 128;

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

/// body(v) with a thread's channels of each row of a leaf, one after the other.
template <DType kType, class Stored, class Body>
__device__ void for_vectors(const RowReading& r, const TokenGroup& leaf, int channel, LeafRing<Stored>& ring,
                            const Body& body) {
  constexpr int kBatch = LeafRing<Stored>::kBatch, kAhead = LeafRing<Stored>::kBatches - 1;
  const Stored* from = static_cast<const Stored*>(r.x.data) + row_offset(r.x, leaf.b, leaf.h, leaf.begin);
  const std::int64_t stride = r.x.stride[2];
  const auto use = [&](const Raw<Stored>& raw) {
    float v[kChannels];
    to_floats(raw, kType, v);
    body(v);
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

template <int kCount>
__device__ void store_sums(const Leaves& leaves, std::int64_t slot, int channel, int channels,
                           const float (&sum)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (channel + i < channels) leaves.sum[slot * leaves.stride + channel + i] = sum[i];
}

// --- K's mean

template <class Stored>
__global__ __launch_bounds__(kLeafThreads) void sum_leaves(const __grid_constant__ RowReading r,
                                                           const __grid_constant__ Leaves leaves) {
  extern __shared__ uint4 ring_memory[];
  auto& ring = *reinterpret_cast<LeafRing<Stored>*>(ring_memory);
  const Lane lane(r);
  const int channel = lane.first;
  const std::int64_t slot = std::int64_t{blockIdx.x} * lane.rows_at_once + lane.row;
  const TokenGroup leaf = leaf_at(r, leaves, slot);
  if (leaf.length == 0 || channel >= r.dim) return;
  const float factor = quant::mean_factor(leaf.sequence_length);
  float sum[kChannels];
  clear(sum);
  for_vectors<Stored>(r, leaf, channel, ring, [&](const float(&v)[kChannels]) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) sum[i] = sum[i] + v[i] * factor;
  });
  // NaN and Inf are rare: where a sum comes out neither, none was there.
  if (largest_bits(sum) >= kInfBits) {
    clear(sum);
    for_vectors<Stored>(r, leaf, channel, ring, [&](const float(&v)[kChannels]) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) sum[i] = sum[i] + (is_finite(v[i]) ? v[i] : 0.0f) * factor;
    });
  }
  store_sums(leaves, slot, channel, r.dim, sum);
}

/// Threads of a block that adds leaves: channels, and aligned parts of a sequence beside each other.
constexpr int kMeanChannels = 32, kMeanParts = 8;

/// Leaves of a part: a power of two, so that a part is a subtree.
__device__ int part_leaves(int leaves, int parts) {
  int part = 8;  // fewer would leave loads of tree_sum unused
  while (part * parts < leaves) part *= 2;
  return part;
}

struct LeavesOfSequence {
  std::int64_t first;  // slot
  int count;
};

__device__ LeavesOfSequence leaves_of(const RowReading& r, const Leaves& leaves, std::int64_t unit,
                                      std::int32_t s) {
  const Sequences& sequences = r.order.sequences;
  return {unit * leaves.groups.per_head + leaves.groups.first(sequences, s),
          static_cast<int>((sequences.length(s) + kLeaf - 1) / kLeaf)};
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
                                                           const __grid_constant__ Leaves leaves,
                                                           const __grid_constant__ TensorView mean) {
  __shared__ float parts[kMeanParts][kMeanChannels];
  const std::uint32_t per_unit = (static_cast<std::uint32_t>(r.dim) + kMeanChannels - 1) / kMeanChannels;
  const UnitPlace at(r, blockIdx.x / per_unit);
  const int part = static_cast<int>(threadIdx.x) / kMeanChannels,
            lane = static_cast<int>(threadIdx.x) % kMeanChannels;
  const int channel = static_cast<int>(blockIdx.x % per_unit) * kMeanChannels + lane;
  const LeavesOfSequence of = leaves_of(r, leaves, at.unit, at.s);
  const int each = part_leaves(of.count, kMeanParts);
  const int own = min(each, of.count - part * each);
  if (channel < r.dim && own > 0) {
    const float* from = leaves.sum + (of.first + std::int64_t{part} * each) * leaves.stride + channel;
    parts[part][lane] = tree_sum(own, [&](int i) { return load_now(from + i * leaves.stride); });
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

/// Squares as they are, which takes one pass where they and those that are scaled are normal numbers, so that
/// the two sums are the same but for 2^2k. Rows that are not rotated.
template <class Stored>
__global__ __launch_bounds__(kLeafThreads) void square_leaves(const __grid_constant__ RowReading r,
                                                              const __grid_constant__ Leaves leaves) {
  extern __shared__ uint4 ring_memory[];
  auto& ring = *reinterpret_cast<LeafRing<Stored>*>(ring_memory);
  const Lane lane(r);
  const int channel = lane.first;
  const std::int64_t slot = std::int64_t{blockIdx.x} * lane.rows_at_once + lane.row;
  const TokenGroup leaf = leaf_at(r, leaves, slot);
  if (leaf.length == 0 || channel >= r.dim) return;
  float sum[kChannels], shift[kChannels] = {};
  std::uint32_t below[kChannels];
  float most[kChannels];
  clear(sum);
#pragma unroll
  for (int i = 0; i < kChannels; ++i) below[i] = 2 * kInfBits - 1, most[i] = 0;
  if (r.shift.data) {
    const float* from = static_cast<const float*>(r.shift.data) + r.unit_offset(r.shift, place_of(leaf));
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      if (channel + i < r.dim) shift[i] = from[channel + i];
  }
  for_vectors<Stored>(r, leaf, channel, ring, [&](float(&v)[kChannels]) {
    if (r.shift.data) {
#pragma unroll
      for (int i = 0; i < kChannels; ++i) v[i] = v[i] - shift[i];
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      sum[i] = sum[i] + v[i] * v[i];
      most[i] = fmaxf(most[i], fabsf(v[i]));            // note: a NaN is seen in the sum
      below[i] = min(below[i], 2 * bits_of(v[i]) - 1);  // no sign; 0 - 1 is the largest number
    }
  });
  store_sums(leaves, slot, channel, r.dim, sum);
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    if (channel + i >= r.dim) continue;
    leaves.least[slot * leaves.stride + channel + i] = (below[i] + 1) / 2;
    leaves.most[slot * leaves.stride + channel + i] = bits_of(most[i]);
  }
}

constexpr int kExponentThreads = 1024;

/// The largest of one number of each thread; of the block. `shared`: kWarp of them.
__device__ std::int64_t largest_of_block(std::int64_t x, std::int64_t* shared) {
  for (int lane = 1; lane < kWarp; lane *= 2) x = max(x, __shfl_xor_sync(kAllLanes, x, lane));
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = shared[0];
  for (unsigned i = 1; i < blockDim.x / kWarp; ++i) x = max(x, shared[i]);
  return x;
}

/// exponent[channel] of a sequence of a head from the channels' sums of scaled squares; of the block, whose
/// first threads have a channel each and the others none.
__device__ void write_exponents(const RowReading& r, const UnitPlace& at, const TensorView& exponent,
                                float sum, float amax, std::int64_t* shared) {
  const int channel = static_cast<int>(threadIdx.x);
  const bool counts = channel < r.channels && amax > 0;
  const std::int64_t order = counts ? quant::norm_order(__fsqrt_rn(sum), amax) : INT64_MIN;
  const std::int64_t largest = largest_of_block(order, shared);
  if (channel < r.channels)
    static_cast<std::int32_t*>(exponent.data)[at.offset(r, exponent) + channel] =
        quant::channel_exponent(order, largest, amax);
}

/// A block a sequence and head: its threads are channels, and parts of the sequence beside each other.
__global__ __launch_bounds__(kExponentThreads,
                             1) void finish_exponents(const __grid_constant__ RowReading r,
                                                      const __grid_constant__ Leaves leaves,
                                                      std::uint32_t* again,
                                                      const __grid_constant__ TensorView exponent) {
  __shared__ float sums[kExponentThreads];
  __shared__ std::uint32_t least[kExponentThreads], most[kExponentThreads];
  __shared__ std::int64_t orders[kWarp];
  constexpr int kSmallestSquared = -63, kLargestSquared = 63;  // exponents whose squares are normal numbers
  const UnitPlace at(r, blockIdx.x);
  const int width = r.lanes() * kChannels, parts = static_cast<int>(blockDim.x) / width;
  const int thread = static_cast<int>(threadIdx.x), channel = thread % width, part = thread / width;
  const LeavesOfSequence of = leaves_of(r, leaves, at.unit, at.s);
  const int each = part_leaves(of.count, parts), own = min(each, of.count - part * each);
  if (channel < r.channels && own > 0) {
    const std::int64_t from = (of.first + std::int64_t{part} * each) * leaves.stride + channel;
    sums[thread] = tree_sum(own, [&](int i) { return load_now(leaves.sum + from + i * leaves.stride); });
    std::uint32_t low = kInfBits, high = 0;
    constexpr int kAtOnce = 4;  // two loads each
    for (int i = 0; i < own; i += kAtOnce) {
      std::uint32_t some[2 * kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const std::int64_t at_leaf = from + min(i + j, own - 1) * leaves.stride;
        some[2 * j] = load_now(leaves.least + at_leaf), some[2 * j + 1] = load_now(leaves.most + at_leaf);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) low = min(low, some[2 * j]), high = max(high, some[2 * j + 1]);
    }
    least[thread] = low, most[thread] = high;
  }
  __syncthreads();
  float sum = 0, amax = 0;
  bool is_good = true;
  if (part == 0 && channel < r.channels && of.count > 0) {
    const int used = (of.count + each - 1) / each;
    sum = tree_sum(used, [&](int i) { return sums[i * width + channel]; });
    std::uint32_t low = kInfBits, high = 0;
    for (int i = 0; i < used; ++i) {
      low = min(low, least[i * width + channel]);
      high = max(high, most[i * width + channel]);
    }
    const int bottom = static_cast<int>(low >> kF32MantissaBits) - kF32Bias;
    const int k = static_cast<int>(high >> kF32MantissaBits) - kF32Bias;
    is_good = is_finite(sum);  // note: NaN among zeros has no largest number, but a sum
    if (is_good && high > 0) {
      is_good = k <= kLargestSquared && bottom >= kSmallestSquared && bottom - k >= kSmallestSquared;
      if (is_good) sum = sum * power_of_two(-2 * k), amax = power_of_two(k);  // its exponent is what counts
    }
  }
  const bool is_done = __syncthreads_and(is_good);
  if (thread == 0) again[blockIdx.x] = is_done ? 0 : 1;
  if (is_done) write_exponents(r, at, exponent, sum, amax, orders);
}

/// The same in two passes over the rows, with NaN and Inf confined, where the one did not do. A block a
/// sequence and head; note: it is alone with all of its tokens, for this is rare.
template <class Stored>
__global__ __launch_bounds__(kThreads) void finish_exponents_again(
    const __grid_constant__ RowReading r, const __grid_constant__ Leaves leaves, const std::uint32_t* again,
    const __grid_constant__ TensorView exponent) {
  __shared__ std::uint32_t largest[kThreads];
  __shared__ std::int64_t orders[kWarp];
  __shared__ Factors factors;
  if (again && again[blockIdx.x] == 0) return;
  factors.fill(r);
  const UnitPlace at(r, blockIdx.x);
  const Lane lane(r);
  const LeavesOfSequence of = leaves_of(r, leaves, at.unit, at.s);
  Steps<1> steps;
  const auto for_leaves = [&](const auto& body) {
    const int rounds = (of.count + lane.rows_at_once - 1) / lane.rows_at_once;
    for (int round = 0; round < rounds; ++round) {
      const int index = round * lane.rows_at_once + lane.row;
      const TokenGroup leaf = index < of.count ? leaf_at(r, leaves, of.first + index) : TokenGroup{};
      if (leaf.length > 0) steps.enter(r, lane, place_of(leaf));
      body(leaf, of.first + index);
    }
  };
  largest[threadIdx.x] = 0;
  __syncthreads();
  for_leaves([&](const TokenGroup& leaf, std::int64_t) {
    std::uint32_t most[kChannels] = {};
    for_rows<Stored>(r, leaf, lane, steps, factors.of, [&](float(&v)[kChannels], bool exists) {
      confined(r, largest_of_row(largest_bits(v), r.lanes()), v, nullptr);
#pragma unroll
      for (int i = 0; i < kChannels; ++i) most[i] = max(most[i], exists ? finite_bits(v[i]) : 0u);
    });
#pragma unroll
    for (int i = 0; i < kChannels; ++i) atomicMax(largest + lane.first + i, most[i]);
  });
  __syncthreads();
  for_leaves([&](const TokenGroup& leaf, std::int64_t slot) {
    float factor[kChannels], sum[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      factor[i] = quant::square_factor(float_of(largest[lane.first + i]));
    }
    clear(sum);
    for_rows<Stored>(r, leaf, lane, steps, factors.of, [&](float(&v)[kChannels], bool exists) {
      confined(r, largest_of_row(largest_bits(v), r.lanes()), v, nullptr);
      if (!exists) return;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) {
        const float y = (is_finite(v[i]) ? v[i] : 0.0f) * factor[i];
        sum[i] = sum[i] + y * y;
      }
    });
    if (leaf.length > 0) store_sums(leaves, slot, lane.first, r.channels, sum);
  });
  __syncthreads();
  const int channel = static_cast<int>(threadIdx.x);
  float sum = 0, amax = 0;
  if (channel < r.channels) {
    const float* from = leaves.sum + of.first * leaves.stride + channel;
    sum = tree_sum(of.count, [&](int i) { return from[i * leaves.stride]; });
    amax = float_of(largest[channel]);
  }
  write_exponents(r, at, exponent, sum, amax, orders);
}

/// A kernel of leaves.
template <class Stored, class Kernel>
void launch_leaves(const RowReading& rows, const Leaves& leaves, Kernel* kernel, void* stream) {
  constexpr int kBytes = sizeof(LeafRing<Stored>);
  const std::int64_t of_block = kLeafThreads >> rows.lanes_log2;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  kernel<<<static_cast<std::uint32_t>((leaves.groups.slots() + of_block - 1) / of_block), kLeafThreads,
           kBytes, stream_of(stream)>>>(rows, leaves);
}

std::uint32_t units_of(const RowReading& rows) {
  return static_cast<std::uint32_t>(rows.order.sequences.count * rows.x.shape[1]);
}

}  // namespace

void launch_mean(const RowReading& rows, const Leaves& leaves, const TensorView& mean, void* stream) {
  const std::uint32_t units = units_of(rows);
  if (units == 0) return;
  const cudaStream_t on = stream_of(stream);
  if (rows.x.dtype == DType::f32)
    launch_leaves<float>(rows, leaves, sum_leaves<float>, stream);
  else
    launch_leaves<std::uint16_t>(rows, leaves, sum_leaves<std::uint16_t>, stream);
  const auto columns = static_cast<std::uint32_t>((rows.dim + kMeanChannels - 1) / kMeanChannels);
  finish_mean<<<units * columns, kThreads, 0, on>>>(rows, leaves, mean);
}

void launch_anchor(const RowReading& rows, const TensorView& anchor, const TensorView& mean, void* stream) {
  if (const std::uint32_t units = units_of(rows); units > 0)
    write_anchor<<<units, kThreads, 0, stream_of(stream)>>>(rows, anchor, mean);
}

void launch_exponents(const RowReading& rows, const Leaves& leaves, std::uint32_t* again,
                      const TensorView& exponent, void* stream) {
  const std::uint32_t units = units_of(rows);
  if (units == 0) return;
  const cudaStream_t on = stream_of(stream);
  const bool is_f32 = rows.x.dtype == DType::f32;
  if (rows.hadamard > 0) {  // no scheme has both
    again = nullptr;
  } else {
    if (is_f32)
      launch_leaves<float>(rows, leaves, square_leaves<float>, stream);
    else
      launch_leaves<std::uint16_t>(rows, leaves, square_leaves<std::uint16_t>, stream);
    finish_exponents<<<units, kExponentThreads, 0, on>>>(rows, leaves, again, exponent);
  }
  if (is_f32)
    finish_exponents_again<float><<<units, kThreads, 0, on>>>(rows, leaves, again, exponent);
  else
    finish_exponents_again<std::uint16_t><<<units, kThreads, 0, on>>>(rows, leaves, again, exponent);
}

}  // namespace octet::cuda
