// Subtrees of TreeSum's trees by a block of threads: rows of a leaf on their way to threads, the leaves of a
// block added up, what is stored of them, and where a sequence's lie.
#pragma once
#include <algorithm>
#include <cstdint>

#include "cuda/ptx/cp_async.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/squares.cuh"
#include "cuda/quant/sums.cuh"
#include "cuda/runtime/launch.cuh"

namespace octet::cuda {

inline constexpr int kLeaf = static_cast<int>(quant::TreeSum::kLeafTokens);

/// The leaf of a group, so many leaves from its first.
inline __device__ TokenGroup leaf_of(TokenGroup group, int index) {
  group.begin += index * kLeaf;
  group.length = max(min(group.length - index * kLeaf, kLeaf), 0);
  return group;
}

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

inline __device__ int leaves_in(int tokens) { return (tokens + kLeaf - 1) / kLeaf; }

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

/// Subtrees of a part: a power of two, so that a part is one too.
inline __device__ int part_subtrees(int subtrees, int parts) {
  int part = 8;  // fewer would leave loads of tree_sum unused
  while (part * parts < subtrees) part *= 2;
  return part;
}

struct SubtreesOfSequence {
  std::int64_t first;  // slot
  int count;
};

inline __device__ SubtreesOfSequence subtrees_of(const RowReading& r, const Subtrees& trees,
                                                 std::int64_t unit, std::int32_t s) {
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

}  // namespace octet::cuda
