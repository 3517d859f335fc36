// The attention kernel of Hopper's family: one block of threads a tile of query rows of one head. A warpgroup
// copies K and V of one key block after the other into rings of buffers; two to four others multiply 64 rows
// each by wgmma, whose accumulators lie as those of mma.sync do, so that softmax, masks, outputs and ends are
// the same text (cuda/attn). sm_90a.
//
// Inside a warpgroup nothing overlaps: Q K^T, softmax, P V and fold follow each other, and scores and sums of
// P V take turns in the registers. The matrix units work for one warpgroup while the others make weights.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/epilogue.cuh"
#include "cuda/attn/key_block.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/rows.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/warpgroup.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/wgmma/copies.cuh"
#include "cuda/wgmma/row_outputs.cuh"
#include "cuda/wgmma/shared_plan.cuh"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

template <class S, Tile kTile>
class Attention {
 public:
  using Shared = SharedPlan<S, kTile>;
  using Tiles = OperandTiles<S, kTile>;
  static constexpr int kStages = Shared::kStages, kSets = Shared::kSets, kRows = Shared::kRows;
  static constexpr int kMultiplying = kTile.warpgroups * kWarpgroup;  ///< threads that multiply

  __device__ Attention(const Call& call, Shared& shared) : call_(call), shared_(shared), addresses_(shared) {}

  __device__ __forceinline__ void run() {
    if (threadIdx.x == 0) open_barriers();
    __syncthreads();
    ptx::wait_for_earlier_kernels();
    // The last tiles come first: under a causal mask they are the longest.
    const std::int32_t group = static_cast<std::int32_t>(gridDim.x - 1 - blockIdx.x);
    constexpr Divider rows(kRows);
    const std::int32_t index = sequence_of_group(call_.queries, group, rows);
    const Sequence queries = sequence_at(call_.queries, index), keys = sequence_at(call_.keys, index);
    const std::int32_t begin = (group - first_group_bound(call_.queries, index, rows)) * kRows;
    if (begin >= queries.length) return;
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y), key_head = head / call_.group;
    const Visibility visibility{call_, queries.length, keys.length};
    const KeyBlocks blocks(call_, visibility, keys, key_head, begin, kRows);
    if (threadIdx.x < kWarpgroup) {
      ptx::give_registers<kRegisters.copying>();
      const Copies<S, kTile> copies(call_, addresses_);
      if (threadIdx.x < kCopying)
        copies.copy_blocks(HeadOperand(call_.k, call_.keys, keys, key_head), blocks);
      else if (threadIdx.x == kCopying)
        copies.tell_of_blocks(blocks);
    } else {
      ptx::take_registers<kRegisters.multiplying>();
      attend_rows(HeadOperand(call_.q, call_.queries, queries, head),
                  HeadOperand(call_.v, call_.keys, keys, key_head), HeadBias(call_, queries.batch, head),
                  visibility, blocks, begin, queries, head);
    }
  }

 private:
  static constexpr int kTiles = kKeys / 8;
  static constexpr Registers kRegisters = registers_of(kTile);
  static constexpr int kAll = 64 * 1024, kFirst = kAll / (kMultiplying + kWarpgroup) / 8 * 8;
  static_assert(kRegisters.copying + kTile.warpgroups * kRegisters.multiplying <=
                    (kTile.warpgroups + 1) * kFirst,
                "who takes registers waits for those that others of the block have given");
  using Rows = LaneRow<S>[kRowsALane];
  using Outputs = typename Shared::Outputs;

  __device__ __forceinline__ void open_barriers() {
    for (int stage = 0; stage < kStages; ++stage) {
      for (int set = 0; set < kSets; ++set) {
        ptx::open_barrier(addresses_.is_copied(stage, set), kCopying);
        ptx::open_barrier(addresses_.is_full(stage, set), 1);
        ptx::open_barrier(addresses_.is_free(stage, set), kMultiplying / 32);
      }
    }
  }

  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x) - kWarpgroup; }
  static __device__ __forceinline__ int warpgroup() { return tile::of_warp(thread() / kWarpgroup); }
  static __device__ __forceinline__ int first_row_of_warp() {
    return tile::of_warp(thread() / 32 * kRowsAWarp);
  }

  /// Rows from their first key block to their ends.
  __device__ __forceinline__ void attend_rows(const HeadOperand& q, const HeadOperand& v,
                                              const HeadBias& bias, const Visibility& visibility,
                                              const KeyBlocks& blocks, std::int32_t begin,
                                              const Sequence& queries, std::int32_t head) {
    const S scheme = scheme_of<S>(call_);
    const std::int32_t first_row = begin + first_row_of_warp();
    load_q(q, first_row, queries.length);
    ptx::commit_copies();
    Rows rows;
    float scales[RowScales<S>::kCount];
    scales_of_rows<S>(q, first_row, queries.length, 0).read(scales);
    open_rows(rows, scheme, scales, first_row, 0);
    for (int c = thread(); c < kTile.head_dim; c += kMultiplying)
      shared_.channels[c] = scheme.channel(end_scales(v, min(c, call_.dim_v - 1)));
    ptx::wait_copies<0>();
    ptx::show_to_matrix_units();
    constexpr int kFirstOfWarpgroups = 2;  // barriers 0 and 1 are of all
    ptx::sync_threads(kFirstOfWarpgroups + warpgroup(), kWarpgroup);

    Outputs outputs(shared_.of_outputs[thread() / 32]);
    visit_blocks(rows, outputs, scheme, bias, visibility, blocks, begin, first_row);
    close_rows(rows);
    // No bias hides keys here: what a row saw is known from where it stands, and no register counts blocks.
    put_tokens(rows, first_row);
#pragma unroll
    for (LaneRow<S>& row : rows) {
      const KeyRange range = visibility.of(row.token);
      row.blocks_seen = range.begin < range.end;
    }
    constexpr int kOfProducts = 1;
    // Nobody reads the tiles any more, whose place the rows take.
    ptx::sync_threads(kOfProducts, kMultiplying);
    ptx::let_the_next_kernel_start();
    const RowStore store(call_, queries, head);
    StagedRow<kTile.head_dim>* staged = shared_.outputs + first_row_of_warp();
    const auto ends = end_rows(scheme, outputs, rows, shared_.channels, store, staged);
    __syncwarp();
    store.template rows<kRowsAWarp>(staged, first_row, queries.length, call_.dim_v);
    store_ends<kRowsALane>(scheme, rows, ends, store, queries.length);
  }

  /// The rows' tokens anew: no register has them through the loop of key blocks.
  static __device__ __forceinline__ void put_tokens(Rows& rows, std::int32_t first_row) {
    const int lane = static_cast<int>(tile::kept(threadIdx.x)) % 32;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) rows[r].token = first_row + lane / 4 + 8 * r;
  }

  /// The warp's rows of Q into shared memory, padded by zeros; rows beyond the sequence are zeros.
  __device__ __forceinline__ void load_q(const HeadOperand& q, std::int32_t first_row, std::int32_t tokens) {
    constexpr int kBytes = Element<S::kQk>::kBytes, kElements = 16 / kBytes, kChunks = Tiles::kQkRow / 16;
    const DeviceOperand& x = q.operand();
    std::byte* const tile = shared_.tiles.q[warpgroup()];
    const int first_of_warp = first_row_of_warp() % kRowsAWarpgroup;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x % 32); i < kRowsAWarp * kChunks; i += 32) {
      const int row = i / kChunks, chunk = i % kChunks;
      const std::int32_t token = first_row + row, first = chunk * kElements;
      const std::uint32_t offset = Tiles::Q::offset(first_of_warp + row, chunk);
      if (call_.q_in_chunks) {
        const std::int64_t at = q.offset(min(token, tokens - 1), min(first, x.dim - kElements));
        ptx::copy_async_or_zeros(addresses_.q(warpgroup()) + offset,
                                 static_cast<const std::byte*>(x.codes.data) + at * kBytes,
                                 token < tokens && first < x.dim ? 16 : 0);
        continue;
      }
      Elements<S::kQk, 16> element{};
#pragma unroll 1
      for (int c = 0; c < kElements && first + c < x.dim && token < tokens; ++c)
        element.of[c] = element_of<S::kQk>(q.number(token, first + c));
      *reinterpret_cast<uint4*>(tile + offset) = __builtin_bit_cast(uint4, element);
    }
  }

  __device__ __forceinline__ void visit_blocks(Rows& rows, Outputs& outputs, const S& scheme,
                                               const HeadBias& bias, const Visibility& visibility,
                                               const KeyBlocks& blocks, std::int32_t begin,
                                               std::int32_t first_row) {
    const int warpgroup = this->warpgroup();
    const SeenByRows by_warpgroup(visibility, bias, blocks, kKeys, begin + warpgroup * kRowsAWarpgroup,
                                  kRowsAWarpgroup);
    const SeenByRows by_warp(visibility, bias, blocks, kKeys, first_row, kRowsAWarp);
    const std::int32_t first = tile::of_warp(blocks.first), end = tile::of_warp(blocks.end);
    const BlockRange some{tile::of_warp(by_warpgroup.some.begin), tile::of_warp(by_warpgroup.some.end)};
    const BlockRange whole{tile::of_warp(by_warp.whole.begin), tile::of_warp(by_warp.whole.end)};
    const std::uint32_t q = Tiles::Q::low_word(addresses_.q(warpgroup));
    Place<kStages> at;
#pragma unroll 1
    for (std::int32_t i = first; i < end; ++i) {
      const bool sees = some.has(i);
      ptx::wait(addresses_.is_full(at.stage, 0), at.parity);
      PWords<S, kTiles> p{};  // note: left as it is, registers keep it through the loop, as in mma/attend.cuh
      if (sees) {
        typename S::Acc acc[kTiles][4];
        multiply_qk(acc, q, Tiles::K::low_word(addresses_.k(at.stage)));
        const auto& constants = shared_.constants[at.stage];
        const bool sees_all = tile::opaque(whole.has(i));
        if (!sees_all) put_tokens(rows, first_row);
        weigh_block<Masses::of_lane, kKeys>(acc, p, rows, scheme, call_, constants.keys, constants.block,
                                            blocks.at(i), visibility, bias, sees_all);
      }
      if constexpr (kSets > 1) {
        release(at.stage, 0);
        ptx::wait(addresses_.is_full(at.stage, 1), at.parity);
      }
      if (sees)
        outputs.template add<typename Tiles::V>(
            scheme, rows, p, Tiles::V::low_word(addresses_.v(at.stage)),
            call_.packed.channels ? shared_.constants[at.stage].channels : nullptr);
      release(at.stage, kSets - 1);
      at.next();
    }
  }

  __device__ __forceinline__ void release(int stage, int set) const {
    __syncwarp();
    ptx::arrive_if(threadIdx.x % 32 == 0, addresses_.is_free(stage, set));
  }

  static __device__ __forceinline__ void multiply_qk(typename S::Acc (&acc)[kTiles][4], std::uint32_t q,
                                                     std::uint32_t k) {
    constexpr auto kStart = start_of_sums<S>();
    if constexpr (kStart != 0) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[i][e] = kStart;
    }
    ptx::pin(acc);
    ptx::begin_products();
#pragma unroll
    for (int step = 0; step < Tiles::kQkRow / 32; ++step)
      ptx::multiply_shared<S::kQk>(acc, Tiles::Q::descriptor(q + Tiles::Q::step(0, step)),
                                   Tiles::K::descriptor(k + Tiles::K::step(0, step)),
                                   step == 0 && kStart == 0 ? ptx::Start::zero : ptx::Start::sums);
    ptx::commit_products();
    ptx::wait_products<0>();
    ptx::pin(acc);
  }

  const Call& call_;
  Shared& shared_;
  const SharedAddresses<S, kTile> addresses_;
};

/// kIndex: of the tile. note: nvcc 13 writes no host code for kernels that are templates of a struct's value.
template <class S, int kIndex>
__global__ void __launch_bounds__((tile_of<S>(kIndex).warpgroups + 1) * kWarpgroup, 1)
    attend(const __grid_constant__ Call call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte memory[];
  constexpr Tile kTile = tile_of<S>(kIndex);
  Attention<S, kTile>(call, *reinterpret_cast<SharedPlan<S, kTile>*>(memory)).run();
#endif
}

}  // namespace octet::cuda::wgmma
