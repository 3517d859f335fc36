// K's mean or anchor.
#include "cuda/ptx/global.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/subtrees.cuh"
#include "cuda/quant/sums.cuh"
#include "cuda/quant/tree_sum.cuh"
#include "cuda/runtime/launch.cuh"
#include "quant/mean.h"

namespace octet::cuda {
namespace {

template <class Stored>
__global__ __launch_bounds__(kLeafThreads) void sum_leaves(const __grid_constant__ RowReading r,
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
    parts[part][lane] = tree_sum(own, [&](int i) { return ptx::load_now(from + i * trees.stride); });
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

}  // namespace octet::cuda
