// Rows whose keys are cut in ranges, of which the blocks of threads of all ranges are a cluster: each merges
// a part of the rows and reads what the others have of it from their shared memory. A kernel of its own for
// that (cuda/ranges.cu) begins when the last range has ended, and finds outputs in global memory. sm_90 and
// newer.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/attn/lane_rows.cuh"
#include "cuda/attn/merged_number.cuh"
#include "cuda/attn/row_store.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/tile/quad.cuh"

namespace octet::cuda::attn {

/// The LSE of a staged row stands behind its channels.
template <int kDim>
__device__ __forceinline__ float& lse_of(StagedRow<kDim>& row) {
  return row.number[kDim];
}

/// LSEs of the first kRows of a lane's rows beside their outputs, as put_ends() has these.
template <int kRows, class S, int kDim>
__device__ __forceinline__ void stage_lses(const S& scheme, const LaneRow<S> (&rows)[kRowsALane],
                                           StagedRow<kDim>* staged) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane % 4 != 0) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    lse_of(staged[lane / 4 + 8 * r]) =
        rows[r].saw() ? scheme.lse(rows[r].state, rows[r].row) : kMinusInfinity;
}

/// Rows that a block of threads has staged with their LSEs, `count` of the head's, number `first` and on.
struct StagedTile {
  std::int32_t first, count, batch, head;
};

/// Four channels of a row as the blocks of threads of a cluster have them, each with its LSE. All of them are
/// asked for before any is waited for.
template <int kMost>
struct RangesOfChunk {
  float lse[kMost];
  float4 o[kMost];

  /// at_lse, at_chunk: shared addresses, in each block the same.
  __device__ __forceinline__ RangesOfChunk(std::uint32_t at_lse, std::uint32_t at_chunk,
                                           std::int32_t ranges) {
#pragma unroll
    for (int p = 0; p < kMost; ++p) {
      lse[p] = kMinusInfinity, o[p] = {};
      if (p < ranges) lse[p] = __uint_as_float(ptx::load_word_of(p, at_lse));
    }
#pragma unroll
    for (int p = 0; p < kMost; ++p)
      if (p < ranges) o[p] = ptx::load_four_of(p, at_chunk);
  }
};

/// thread, threads: of the block, all of which come here; blockIdx.z: its number in the cluster.
template <int kDim>
__device__ __forceinline__ void merge_in_cluster(const Call& call, StagedRow<kDim>* staged,
                                                 const StagedTile& rows, int thread, int threads) {
  constexpr int kChunk = 4, kChunks = kDim / kChunk;
  const auto ranges = static_cast<std::int32_t>(gridDim.z);
  const int all = rows.count * kChunks, step = ranges * threads;
  int i = static_cast<int>(blockIdx.z) * threads + thread;
  ptx::arrive_at_cluster();
  ptx::wait_for_cluster();  // every block's rows are there
  bool is_last;
#pragma unroll 1
  do {
    const int r = i / kChunks, channel = i % kChunks * kChunk;
    const bool is_there = i < all && channel < call.dim_v;
    i += step, is_last = __all_sync(tile::kAllLanes, i >= all);
    const auto at = [](const float* number) { return ptx::shared_address(number); };
    const RangesOfChunk<KeyRanges::kMostOfCluster> of(at(&lse_of(staged[r])), at(staged[r].number + channel),
                                                      is_there ? ranges : 0);
    if (is_last) ptx::arrive_at_cluster();  // this warp reads no more of other blocks
    if (!is_there) continue;
    float most = kMinusInfinity, mass = 0;
#pragma unroll
    for (const float lse : of.lse) most = fmaxf(most, lse);
    const float origin = origin_of(most);
    float sum[kChunk] = {};
#pragma unroll
    for (int p = 0; p < KeyRanges::kMostOfCluster; ++p) {
      const float weight = expf(of.lse[p] - origin);
      mass += weight;
      sum[0] += weight * of.o[p].x, sum[1] += weight * of.o[p].y;
      sum[2] += weight * of.o[p].z, sum[3] += weight * of.o[p].w;
    }
    const bool sees = sees_keys(mass);
    const std::int32_t row = rows.first + r, token = row / call.queries.rows_a_token,
                       head = rows.head * call.queries.rows_a_token + row - token * call.queries.rows_a_token;
    const auto place = [&](const DeviceTensor& x) {
      return x.along(0, rows.batch) + x.along(1, head) + x.along(2, token);
    };
    const float share = sees ? share_of(mass) : 0.0f;
#pragma unroll
    for (int c = 0; c < kChunk; ++c)
      if (channel + c < call.dim_v)
        put_number(call.o, place(call.o) + call.o.along(3, channel + c), sees ? sum[c] * share : 0.0f);
    if (channel != 0 || !call.lse.data) continue;
    double total = sees ? merged_lse(most, mass) : double{kMinusInfinity};
    if (sees && call.q_anchor.data)  // what smoothing K took away
      total += static_cast<const float*>(call.q_anchor.data)[place(call.q_anchor)];
    static_cast<float*>(call.lse.data)[place(call.lse)] = static_cast<float>(total);
  } while (!is_last);
  ptx::wait_for_cluster();  // nobody reads this block's rows any more
}

}  // namespace octet::cuda::attn
