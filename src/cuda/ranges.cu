#include "cuda/ranges.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/attn/merged_number.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/attn/visibility.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/runtime/launch.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/quad.cuh"

namespace octet::cuda {
namespace {

using attn::BlockRange;

constexpr int kLanes = 32, kWarps = 4, kMostDim = 256;

/// Outputs and LSEs of ranges, [range][head][row](channel), and where a call's go.
/// note: o, lse and q_anchor stand here, for read from their places in the call, in another order of the
/// kernel's parameters, a merging took 1.1 us longer (H200).
struct RangesOfCall {
  Call of_ranges;
  const float *o_of_ranges, *lse_of_ranges;
  DeviceTensor o, lse, q_anchor;
  Divider rows, heads;  ///< of a batch entry's head; of an entry
  std::int32_t first_head;
};

/// Of what the lanes of a warp have, in each of them.
template <class Join>
__device__ float over_warp(float x, const Join& join) {
#pragma unroll
  for (int lane = 1; lane < kLanes; lane *= 2) x = join(x, __shfl_xor_sync(tile::kAllLanes, x, lane));
  return x;
}

/// The packed sequence that begins last of those up to a token, found by a warp; -1: none does.
__device__ std::int32_t sequence_before(const DeviceSequences& all, std::int32_t token, std::int32_t lane) {
  std::int32_t begun = 0;
  for (std::int32_t s = lane; s < all.count; s += kLanes) begun += all.cu_seqlens[s] <= token ? 1 : 0;
  return __reduce_add_sync(tile::kAllLanes, begun) - 1;
}

/// o = sum of o_r e^(lse_r - lse), lse = log of the sum of e^lse_r, of one row: each warp adds every so many
/// ranges. A range of which the row sees no key has an LSE of minus infinity.
__global__ void __launch_bounds__(kLanes* kWarps) merge(const __grid_constant__ RangesOfCall m) {
  __shared__ float sums[kWarps][kMostDim];
  const Call& call = m.of_ranges;
  // note: what the compiler knows to be the same in all threads has too few registers.
  const std::int32_t first = tile::kept(static_cast<std::int32_t>(blockIdx.x)),
                     thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t of_ranges = first / m.rows, row = first - of_ranges * m.rows;
  const std::int32_t number = m.first_head + of_ranges, batch = number / m.heads,
                     head = number - batch * m.heads;
  const std::int32_t warp = thread / kLanes, lane = thread % kLanes, dim = call.dim_v;
  const std::int32_t token = row / call.queries.rows_a_token,
                     of_joined = row - token * call.queries.rows_a_token;
  const std::int64_t rows_of_range = gridDim.x;
  const auto lse_of = [&](std::int32_t r) { return m.lse_of_ranges[first + r * rows_of_range]; };
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  const std::int32_t index = call.queries.cu_seqlens ? sequence_before(call.queries, token, lane) : batch;
  if (index < 0) return;
  const attn::Sequence queries = attn::sequence_at(call.queries, index);
  if (token >= queries.begin + queries.length) return;  // a token of no sequence
  const BlockRange seen =
      attn::visible_blocks(call, queries.length, attn::sequence_at(call.keys, index).length);
  const std::int32_t each = attn::blocks_a_range(call, seen),
                     ranges = (max(seen.end - seen.begin, 1) + each - 1) / each;
  float most = kMinusInfinity, mass = 0;
  for (std::int32_t r = lane; r < ranges; r += kLanes) most = fmaxf(most, lse_of(r));
  most = over_warp(most, [](float a, float b) { return fmaxf(a, b); });
  const float origin = attn::origin_of(most);
  for (std::int32_t r = lane; r < ranges; r += kLanes) mass += expf(lse_of(r) - origin);
  mass = over_warp(mass, [](float a, float b) { return a + b; });
  const bool sees = attn::sees_keys(mass);
  const float share = sees ? attn::share_of(mass) : 0.0f;

  const auto at = [&](const DeviceTensor& x) {
    return x.along(0, batch) + x.along(1, head * call.queries.rows_a_token + of_joined) + x.along(2, token);
  };
  constexpr int kOfLane = kMostDim / kLanes;
  float sum[kOfLane] = {};
#pragma unroll 4
  for (std::int32_t r = warp; r < ranges; r += kWarps) {
    const float weight = expf(lse_of(r) - origin);
    const float* const o = m.o_of_ranges + (first + r * rows_of_range) * dim + lane;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      if (lane + i * kLanes < dim) sum[i] += weight * o[i * kLanes];
  }
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) sums[warp][lane + i * kLanes] = sum[i];
  __syncthreads();
  for (std::int32_t c = thread; c < dim; c += kLanes * kWarps) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all += sums[w][c];
    attn::put_number(m.o, at(m.o) + m.o.along(3, c), sees ? all * share : 0.0f);
  }
  if (thread != 0 || !m.lse.data) return;
  double total = sees ? attn::merged_lse(most, mass) : double{kMinusInfinity};
  if (sees && m.q_anchor.data) total += static_cast<const float*>(m.q_anchor.data)[at(m.q_anchor)];
  static_cast<float*>(m.lse.data)[at(m.lse)] = static_cast<float>(total);
}

/// Numbers of a head that a range leaves, and where LSEs stand behind outputs.
std::int64_t outputs_of_head(const RangeCut& cut) { return cut.rows() * cut.dim; }
std::byte* lse_of(const RangeCut& cut, std::byte* parts) {
  return parts + cut.most * cut.count * outputs_of_head(cut) * std::int64_t{sizeof(float)};
}

/// The tensor [head][row](channel) of all heads of which `first` is the first one's data: what stands before
/// that is nobody's, and not touched.
DeviceTensor from_head(std::byte* first, const RangeCut& cut, std::int64_t of_head, std::int64_t of_row) {
  const std::int64_t before = cut.first_head * of_head * std::int64_t{sizeof(float)};
  void* const data = reinterpret_cast<void*>(reinterpret_cast<std::intptr_t>(first) - before);
  return {data, {cut.heads * of_head, of_head, of_row, 1}, DType::f32};
}

}  // namespace

std::int64_t tokens_of_sequence(const AttentionDesc& d, std::int64_t tokens) {
  const std::int64_t sequences = std::max<std::int64_t>(d.sequences, 1);
  return (tokens + sequences - 1) / sequences;
}

bool may_have_ranges(const AttentionDesc& d) {
  const bool of_floats = d.output == DType::f32 || d.output == DType::f16 || d.output == DType::bf16;
  return of_floats && d.tokens_q > 0 && d.tokens_k > d.key_block && d.batch > 0;
}

std::int64_t seen_blocks(const AttentionDesc& d) {
  const std::int64_t rows = tokens_of_sequence(d, d.tokens_q), keys = tokens_of_sequence(d, d.tokens_k);
  const std::int64_t ahead = d.mask == Mask::causal ? 0 : d.window_right;
  std::int64_t seen = keys;
  if (d.window_left >= 0 && ahead >= 0)
    seen = std::min(keys, std::min(d.window_left, keys) + std::min(ahead, keys) + rows);
  return (seen + d.key_block - 1) / d.key_block;
}

RangeCut::RangeCut(const AttentionDesc& d, std::int32_t most_ranges)
    : most(most_ranges), tokens(d.tokens_q), heads(d.heads_q), dim(d.head_dim_v) {
  // A bias is of each query head's own.
  if (d.bias == AttentionDesc::Bias::none) joined = d.heads_q / d.heads_kv, heads = d.heads_kv;
  if (d.sequences > 0)
    least_blocks = static_cast<std::int32_t>((kLongest * seen_blocks(d) + most - 1) / most);
  stride = std::max<std::int64_t>(d.batch, 1);
  count = heads * stride;
}

RangeCut::RangeCut(const AttentionDesc& d, const Cut& cut) : RangeCut(d, cut.ranges) {
  if (cut.family == Family::mma) return;
  joined = 1, heads = d.heads_q;
  const std::int64_t all = heads * d.batch;
  count = cut.last_heads > 0 ? cut.last_heads : all;
  first_head = all - count;
  stride = count;
}

Call call_of_ranges(Call call, const RangeCut& cut, std::int64_t rows_a_tile) {
  const auto joined = static_cast<std::int32_t>(cut.joined);
  call.group = Divider(call.group / joined), call.queries.rows_a_token = Divider(joined);
  call.queries.groups = Divider((cut.rows() + rows_a_tile - 1) / rows_a_tile);
  call.has_ranges = true;
  call.ranges = {Divider(cut.most), cut.least_blocks, static_cast<std::int32_t>(cut.stride)};
  return call;
}

Call into_parts(Call call, const RangeCut& cut, std::byte* parts) {
  call.o = from_head(parts, cut, outputs_of_head(cut), cut.dim);
  call.o_in_chunks = cut.dim % 4 == 0;
  call.lse = from_head(lse_of(cut, parts), cut, cut.rows(), 1);
  call.wants_lse = true, call.wants_o_scale = false;
  call.q_anchor = {};
  return call;
}

int merge_ranges(const Call& call, const RangeCut& cut, std::byte* parts, void* stream) {
  constexpr std::int64_t kAnyTile = 1;
  const RangesOfCall m{into_parts(call_of_ranges(call, cut, kAnyTile), cut, parts),
                       reinterpret_cast<const float*>(parts),
                       reinterpret_cast<const float*>(lse_of(cut, parts)),
                       call.o,
                       call.lse,
                       call.q_anchor,
                       Divider(cut.rows()),
                       Divider(cut.heads),
                       static_cast<std::int32_t>(cut.first_head)};
  return runtime::launch(merge, static_cast<unsigned>(cut.count * cut.rows()), kLanes * kWarps, 0, stream, m);
}

}  // namespace octet::cuda
