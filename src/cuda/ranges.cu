#include "cuda/ranges.h"

#include <cuda_runtime.h>

#include "cuda/ptx/grid.cuh"
#include "cuda/runtime/launch.cuh"
#include "numerics/formats.h"

namespace octet::cuda {
namespace {

constexpr int kWarp = 32, kWarps = 4, kMostDim = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

/// Outputs and LSEs of ranges, and where a call's go.
struct Merging {
  const float *o, *lse;  ///< [batch][range][head][row](channel)
  DeviceTensor to, to_lse, q_anchor;
  std::int32_t ranges, dim;
};

/// A number in the output's format: f16, bf16 or f32.
__device__ void put(const DeviceTensor& x, std::int64_t at, float number) {
  if (x.dtype == DType::f16)
    static_cast<std::uint16_t*>(x.data)[at] = f16_from_f32(number);
  else if (x.dtype == DType::bf16)
    static_cast<std::uint16_t*>(x.data)[at] = bf16_from_f32(number);
  else
    static_cast<float*>(x.data)[at] = number;
}

/// Of what the lanes of a warp have, in each of them.
template <class Join>
__device__ float over_warp(float x, const Join& join) {
#pragma unroll
  for (int lane = 1; lane < kWarp; lane *= 2) x = join(x, __shfl_xor_sync(kAllLanes, x, lane));
  return x;
}

/// o = sum of o_r e^(lse_r - lse), lse = log of the sum of e^lse_r, of one row: each warp adds every so many
/// ranges. A range of which the row sees no key has an LSE of minus infinity.
__global__ void __launch_bounds__(kWarp* kWarps) merge(const __grid_constant__ Merging m) {
  __shared__ float sums[kWarps][kMostDim];
  const auto row = static_cast<std::int32_t>(blockIdx.x), head = static_cast<std::int32_t>(blockIdx.y),
             batch = static_cast<std::int32_t>(blockIdx.z), thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t warp = thread / kWarp, lane = thread % kWarp;
  const std::int64_t rows_of_range = std::int64_t{gridDim.y} * gridDim.x;
  const std::int64_t first = batch * m.ranges * rows_of_range + std::int64_t{head} * gridDim.x + row;
  const auto lse_of = [&](std::int32_t r) { return m.lse[first + r * rows_of_range]; };
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  float most = kMinusInfinity, mass = 0;
  for (std::int32_t r = lane; r < m.ranges; r += kWarp) most = fmaxf(most, lse_of(r));
  most = over_warp(most, [](float a, float b) { return fmaxf(a, b); });
  const bool sees = most > kMinusInfinity;
  const float origin = sees ? most : 0.0f;
  for (std::int32_t r = lane; r < m.ranges; r += kWarp) mass += expf(lse_of(r) - origin);
  mass = over_warp(mass, [](float a, float b) { return a + b; });

  constexpr int kOfLane = kMostDim / kWarp;
  float sum[kOfLane] = {};
#pragma unroll 4
  for (std::int32_t r = warp; r < m.ranges; r += kWarps) {
    const float weight = expf(lse_of(r) - origin);
    const float* const o = m.o + (first + r * rows_of_range) * m.dim + lane;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      if (lane + i * kWarp < m.dim) sum[i] += weight * o[i * kWarp];
  }
#pragma unroll
  for (int i = 0; i < kOfLane; ++i) sums[warp][lane + i * kWarp] = sum[i];
  __syncthreads();
  for (std::int32_t c = thread; c < m.dim; c += kWarp * kWarps) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) all += sums[w][c];
    put(m.to, m.to.along(0, batch) + m.to.along(1, head) + m.to.along(2, row) + m.to.along(3, c),
        sees ? all / mass : 0.0f);
  }
  if (thread != 0 || !m.to_lse.data) return;
  const auto at = [&](const DeviceTensor& x) {
    return x.along(0, batch) + x.along(1, head) + x.along(2, row);
  };
  double total = sees ? static_cast<double>(most) + static_cast<double>(logf(mass)) : double{kMinusInfinity};
  if (sees && m.q_anchor.data) total += static_cast<const float*>(m.q_anchor.data)[at(m.q_anchor)];
  static_cast<float*>(m.to_lse.data)[at(m.to_lse)] = static_cast<float>(total);
}

/// A tensor of query heads and one token as one of key heads and a head's rows.
void join_heads(DeviceTensor& x, std::int64_t heads) { x.stride[2] = x.stride[1], x.stride[1] *= heads; }

std::byte* lse_of(const RangeCut& cut, std::byte* parts) {
  return parts + cut.ranges() * cut.batch * cut.heads * cut.rows * cut.dim * std::int64_t{sizeof(float)};
}

}  // namespace

bool may_have_ranges(const AttentionDesc& d) {
  const bool hides = d.window_left >= 0 || d.window_right >= 0 || (d.mask != Mask::none && d.tokens_q > 1);
  const bool of_floats = d.output == DType::f32 || d.output == DType::f16 || d.output == DType::bf16;
  return d.sequences == 0 && d.bias == AttentionDesc::Bias::none && !hides && of_floats && d.tokens_q > 0 &&
         d.tokens_k > d.key_block && d.batch > 0;
}

RangeCut::RangeCut(const AttentionDesc& d, std::int32_t range_blocks)
    : heads(d.heads_q),
      rows(d.tokens_q),
      batch(d.batch),
      dim(d.head_dim_v),
      blocks((d.tokens_k + d.key_block - 1) / d.key_block),
      range_blocks(range_blocks),
      joins_heads(d.tokens_q == 1 && d.heads_q > d.heads_kv) {
  if (joins_heads) rows = d.heads_q / d.heads_kv, heads = d.heads_kv;
}

Call call_of_ranges(Call call, const RangeCut& cut, std::int64_t key_block, std::int64_t rows_a_tile,
                    std::byte* parts) {
  const std::int64_t ranges = cut.ranges();
  call.mask = Mask::none, call.hides_keys = 0;
  if (cut.joins_heads) {
    call.group = Divider(1);
    join_heads(call.q.codes, cut.rows);
    if (call.q.scales.data) join_heads(call.q.scales, cut.rows), call.q.tokens_per_scale = Divider(1);
  }
  call.queries = {nullptr, static_cast<std::int32_t>(cut.rows), static_cast<std::int32_t>(cut.batch * ranges),
                  Divider((cut.rows + rows_a_tile - 1) / rows_a_tile)};
  call.keys.groups = Divider(1);
  call.has_ranges = true;
  call.ranges = {Divider(ranges), static_cast<std::int32_t>(cut.range_blocks * key_block), cut.range_blocks,
                 static_cast<std::int32_t>(cut.blocks)};
  const std::int64_t row = cut.dim, head = cut.rows * row, range = cut.heads * head;
  call.o = {parts, {range, head, row, 1}, DType::f32};
  call.o_in_chunks = row % 4 == 0;
  call.lse = {lse_of(cut, parts), {cut.heads * cut.rows, cut.rows, 1, 1}, DType::f32};
  call.wants_lse = true, call.wants_o_scale = false;
  call.q_anchor = {};
  return call;
}

int merge_ranges(const Call& call, const RangeCut& cut, std::byte* parts, void* stream) {
  Merging m{reinterpret_cast<const float*>(parts),
            reinterpret_cast<const float*>(lse_of(cut, parts)),
            call.o,
            call.lse,
            call.q_anchor,
            static_cast<std::int32_t>(cut.ranges()),
            static_cast<std::int32_t>(cut.dim)};
  if (cut.joins_heads)
    for (DeviceTensor* x : {&m.to, &m.to_lse, &m.q_anchor}) join_heads(*x, cut.rows);
  const dim3 blocks(static_cast<unsigned>(cut.rows), static_cast<unsigned>(cut.heads),
                    static_cast<unsigned>(cut.batch));
  return runtime::launch(merge, blocks, kWarp * kWarps, 0, stream, m);
}

}  // namespace octet::cuda
