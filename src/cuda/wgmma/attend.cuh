// The attention kernel of Hopper's family: one block of threads a tile of query rows of one head. A warpgroup
// copies K and V of one key block after the other into rings of buffers; two to four others multiply 64 rows
// each by wgmma, whose accumulators lie as those of mma.sync do, so that softmax, masks, outputs and ends are
// the same text (cuda/attn). sm_90a.
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
#include "cuda/wgmma/key_block_visits.cuh"
#include "cuda/wgmma/launch.h"
#include "cuda/wgmma/row_tile.cuh"
#include "cuda/wgmma/shared_plan.cuh"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

template <class S, Tile kTile>
class Attention : KeyBlockVisits<S, kTile> {
  using Base = KeyBlockVisits<S, kTile>;

 public:
  using Base::kStages, Base::kSets;
  using typename Base::Shared;
  using typename Base::Tiles;
  static constexpr int kRows = Shared::kRows;
  static constexpr int kMultiplying = kTile.warpgroups * kWarpgroup;  ///< threads that multiply

  __device__ Attention(const Call& call, Shared& shared) : Base(call, shared) {}

  /// count: of tiles of query rows of all heads, which the blocks of threads share out among them.
  __device__ __forceinline__ void run(const RowTiles& count) {
    const Order order(call_, count);
    if (threadIdx.x == 0) open_barriers();
    __syncthreads();
    if (call_.begins == Begins::beside_own) [[unlikely]]
      __threadfence();  // what the processor's cache has from before is read anew
    else
      ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) [[unlikely]]
      ptx::let_the_next_kernel_start();
    if (threadIdx.x < kWarpgroup) {
      ptx::give_registers<kRegisters.copying>();
      const Copies<S, kTile> copies(call_, addresses_);
      Place<kStages> at;
      order.each([&](std::int32_t i) {
        const RowTile tile = order.at(i);
        if (tile.begin >= tile.queries.length) return i;
        const KeyBlocks blocks = order.blocks_of(tile, i);
        for (int pass = 0;; ++pass) {
          if (threadIdx.x < kCopying)
            copies.copy_blocks(HeadOperand(call_.k, call_.keys, tile.keys, tile.head / call_.group),
                               HeadOperand(call_.v, call_.keys, tile.keys, tile.head / call_.group), blocks,
                               at);
          else if (threadIdx.x == kCopying)
            copies.tell_of_blocks(blocks, at);
          if (!Shared::kWeighsEarly || threadIdx.x > kCopying || pass > 0 || !is_to_go_again()) break;
        }
        return i;
      });
    } else {
      ptx::take_registers<kRegisters.multiplying>();
      Place<kStages> at;
      order.each([&](std::int32_t i) {
        // note: rows' ends ask for it again; no register has it through the loop of key blocks.
        if (Shared::kSharesOut && threadIdx.x % 32 == 0) shared_.tile_of_warp[thread() / 32] = i;
        __syncwarp();
#pragma unroll 1
        while (attend_rows(order, i, at)) {
        }
        return tile_of_warp();
      });
    }
    // Who waits for this kernel waits for the one that it began beside.
    if (call_.begins == Begins::beside_own && blockIdx.x == 0) [[unlikely]]
      ptx::wait_for_earlier_kernels();
  }

 private:
  static constexpr Registers kRegisters = registers_of(kTile);
  static constexpr int kAll = 64 * 1024, kFirst = kAll / (kMultiplying + kWarpgroup) / 8 * 8;
  static_assert(kRegisters.copying + kTile.warpgroups * kRegisters.multiplying <=
                    (kTile.warpgroups + 1) * kFirst,
                "who takes registers waits for those that others of the block have given");
  static constexpr bool kMayHaveRanges = may_have_ranges<S>(kTile);
  using Order = TileOrder<Shared::kSharesOut, kRows, kMayHaveRanges>;
  using Base::call_, Base::shared_, Base::addresses_, Base::kFirstOfWarpgroups;
  using Base::thread, Base::warpgroup, Base::first_row_of_warp, Base::put_tokens, Base::pass;
  using typename Base::Outputs;
  using typename Base::Rows;

  __device__ __forceinline__ std::int32_t tile_of_warp() const {
    if constexpr (!Shared::kSharesOut) return 0;
    return tile::of_warp(shared_.tile_of_warp[thread() / 32]);
  }

  __device__ __forceinline__ void open_barriers() {
    if constexpr (Shared::kWeighsEarly) {
      ptx::open_barrier(addresses_.is_told(), 1);
      shared_.pass = Pass::first;
    }
    for (int stage = 0; stage < kStages; ++stage) {
      for (int set = 0; set < kSets; ++set) {
        ptx::open_barrier(addresses_.is_copied(stage, set), kCopying);
        ptx::open_barrier(addresses_.is_full(stage, set), 1);
        ptx::open_barrier(addresses_.is_free(stage, set), kMultiplying / 32);
      }
    }
  }

  /// Rows from their first key block to their ends; whether they are to be computed again, by weights that do
  /// wait for key blocks' largest scores. at: of the first key block, then of the next tile's.
  __device__ __forceinline__ bool attend_rows(const Order& order, std::int32_t i, Place<kStages>& at) {
    const RowTile tile = order.at(i);
    if (tile.begin >= tile.queries.length) return false;
    const Sequence& queries = tile.queries;
    const std::int32_t begin = tile.begin, first_row = begin + first_row_of_warp();
    // Nobody reads the rows of the tile before any more.
    if constexpr (Shared::kSharesOut) sync_warpgroup();
    if constexpr (Shared::kParksTile) {
      if (threadIdx.x % 32 == 0) shared_.row_tile_of_warp[thread() / 32] = tile;
    }
    // What comes from memory is asked for first, and what needs none of it made meanwhile.
    const HeadOperand q(call_.q, call_.queries, queries, tile.head);
    load_q<S, Tiles>(call_, q, first_row, queries.length, first_row_of_warp() % kRowsAWarpgroup,
                     addresses_.q(warpgroup()), shared_.tiles.q[warpgroup()]);
    ptx::commit_copies();
    float scales[RowScales<S>::kCount];
    scales_of_rows<S>(q, first_row, queries.length, 0).read(scales);
    const HeadOperand v(call_.v, call_.keys, tile.keys, tile.head / call_.group);
    constexpr int kOfChannels = Shared::kSharesOut ? kWarpgroup : kMultiplying;
    static_assert(kOfChannels >= kTile.head_dim, "a thread has one channel");
    const int channel = thread() % kOfChannels;
    ChannelScales<DeviceLane> of_channel{};
    if (channel < kTile.head_dim) of_channel = end_scales(v, min(channel, call_.dim_v - 1));
    const HeadBias bias(call_, queries.batch, tile.head);
    const Visibility visibility{call_, queries.length, tile.keys.length};
    const KeyBlocks blocks = order.blocks_of(tile, i);
    const S scheme = scheme_of<S>(call_);
    Rows rows;
    open_rows(rows, scheme, scales, first_row, 0);
    if constexpr (Shared::kParksRows) shared_.rows[thread()] = {rows[0].row, rows[1].row};
    if (channel < kTile.head_dim) channels_of_rows()[channel] = scheme.channel(of_channel);
    ptx::wait_copies<0>();
    ptx::show_to_matrix_units();
    sync_warpgroup();

    Outputs outputs(shared_.of_outputs[thread() / 32]);
    if constexpr (Shared::kWeighsEarly)
      Shared::Early::park_rows({shared_.early_rows, thread()}, scheme, rows);
    this->visit_blocks(rows, outputs, scheme, bias, visibility, blocks,
                       {begin, order.computed_end_of(tile, i)}, first_row, at);
    if constexpr (Shared::kWeighsEarly) {
      if (goes_again(Shared::Early::has_failed({shared_.early_rows, thread()}))) [[unlikely]]
        return true;
    }
    if constexpr (Shared::kSharesOut) {
      const std::int32_t again = tile_of_warp();
      end_rows_of(order, order.at(again), again, rows, outputs, scheme);
    } else if constexpr (Shared::kParksTile) {
      end_rows_of(order, shared_.row_tile_of_warp[thread() / 32], order.again(i), rows, outputs, scheme);
    } else {
      end_rows_of(order, tile, order.again(i), rows, outputs, scheme);
    }
    return false;
  }

  /// Whether the tile is computed once more, which it is where a row of it has failed; tells who copies.
  __device__ __forceinline__ bool goes_again(bool has_failed) const {
    if (has_failed && pass() == Pass::first) shared_.pass = Pass::first_failed;
    ptx::sync_threads(kOfProducts, kMultiplying);
    const Pass now = pass();
    if (now != Pass::second && thread() == 0) ptx::arrive(addresses_.is_told());
    if (now != Pass::first_failed) [[likely]]
      return false;
    ptx::sync_threads(kOfProducts, kMultiplying);  // all have seen it
    if (thread() == 0) shared_.pass = Pass::second;
    return true;
  }
  /// The same as those who copy are told.
  __device__ __forceinline__ bool is_to_go_again() const {
    ptx::wait(addresses_.is_told(), 0);
    return pass() != Pass::first;
  }
  static constexpr int kOfProducts = 1;  ///< a barrier

  __device__ __forceinline__ void end_rows_of(const Order& order, const RowTile& tile, std::int32_t i,
                                              Rows& rows, Outputs& outputs, const S& scheme) {
    const Sequence& queries = tile.queries;
    const std::int32_t first_row = tile.begin + first_row_of_warp();
    close_rows(rows);
    // No bias hides keys here: what a row saw is known from where it stands, and no register counts blocks.
    put_tokens(rows, first_row);
    const Visibility visibility{call_, queries.length, tile.keys.length};
    const bool of_all = visibility.of_all();
#pragma unroll
    for (LaneRow<S>& row : rows) {
      if (of_all) {
        row.blocks_seen = visibility.keys > 0;
      } else {
        const KeyRange range = visibility.of(row.token);
        row.blocks_seen = range.begin < range.end;
      }
    }
    std::int32_t head = tile.head;
    if constexpr (kMayHaveRanges) {
      if (call_.has_ranges) [[unlikely]] {
        head += static_cast<std::int32_t>(blockIdx.z) * call_.ranges.stride;
        see_only(order.blocks_of(tile, i), tile, rows);
      }
    }
    // Nobody reads the tiles any more, whose place the rows take.
    if constexpr (!Shared::kSharesOut) ptx::sync_threads(kOfProducts, kMultiplying);
    if (order.is_last(i)) ptx::let_the_next_kernel_start();
    const RowStore store(call_, queries, head);
    const std::int32_t end = order.end_of(tile, i);
    if (first_row >= end) return;  // none of the warp's rows is the tile's own
    static_assert(S::kOutput == Output::values, "outputs are no codes");
    const auto staged_in = [&](auto format) {
      using Row = StagedRow<kTile.head_dim, decltype(format)>;
      return reinterpret_cast<Row*>(shared_.outputs()) + first_row_of_warp();
    };
    // note: of 256 channels with eight tiles at a time the compiler makes int8_half's loop of key blocks 3 %
    // slower.
    constexpr int kTiles = kTile.head_dim / 8, kSome = kTile.head_dim == 256 ? 16 : 8;
#pragma unroll
    for (int first = 0; first < kTiles; first += kSome) {
      float ends[kSome][4];
      ends_of(scheme, outputs, rows, channels_of_rows(), store, first, ends);
      store.visit_format([&](auto format) { put_ends(ends, first, staged_in(format)); });
    }
    __syncwarp();
    store.visit_format([&](auto format) {
      store.template formatted_rows<kRowsAWarp, kWordsTogether<S>>(staged_in(format), first_row, end,
                                                                   call_.dim_v);
    });
    store_ends<kRowsALane>(scheme, rows, Ends<S>{}, store, first_row, 0, end);
  }

  /// Of what rows see, the keys of so many blocks.
  __device__ __forceinline__ void see_only(const KeyBlocks& blocks, const RowTile& tile, Rows& rows) const {
#pragma unroll
    for (LaneRow<S>& row : rows) {
      const KeyRange range = Visibility{call_, tile.queries.length, tile.keys.length}.of(row.token);
      row.blocks_seen =
          max(range.begin, blocks.first * blocks.size) < min(range.end, blocks.end * blocks.size);
    }
  }

  /// Constants of rows' ends: where warpgroups are at different tiles each has its own.
  __device__ __forceinline__ auto& channels_of_rows() const {
    return shared_.channels[Shared::kSharesOut ? warpgroup() : 0];
  }
  static __device__ __forceinline__ void sync_warpgroup() {
    ptx::sync_threads(kFirstOfWarpgroups + warpgroup(), kWarpgroup);
  }
};

/// kIndex: of the tile. note: nvcc 13 writes no host code for kernels that are templates of a struct's value.
template <class S, int kIndex>
__global__ void __launch_bounds__((tile_of<S>(kIndex).warpgroups + 1) * kWarpgroup, 1)
    attend(const __grid_constant__ Call call, const __grid_constant__ RowTiles tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) std::byte memory[];
  constexpr Tile kTile = tile_of<S>(kIndex);
  Attention<S, kTile>(call, *reinterpret_cast<SharedPlan<S, kTile>*>(memory)).run(tiles);
#endif
}

}  // namespace octet::cuda::wgmma
