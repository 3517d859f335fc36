// The attention kernel of Hopper's family: one block of threads a tile of query rows of one head. A warpgroup
// copies K and V of one key block after the other into rings of buffers; two to four others multiply 64 rows
// each by wgmma, whose accumulators lie as those of mma.sync do, so that softmax, masks, outputs and ends are
// the same text (cuda/attn). sm_90a.
//
// Inside a warpgroup nothing overlaps: Q K^T, softmax, P V and fold follow each other, and scores and sums of
// P V take turns in the registers. The matrix units work for one warpgroup while the others make weights.
// Where registers hold scores and sums of P V beside each other, Q K^T of the next key block is under way
// while this one's sums are folded (weighs_early in shared_plan.cuh). Where P are halves and one product has
// all channels, P V is added to the outputs as it is made (tracks_weights).
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
#include "cuda/wgmma/early_weights.cuh"
#include "cuda/wgmma/launch.h"
#include "cuda/wgmma/qk.cuh"
#include "cuda/wgmma/row_outputs.cuh"
#include "cuda/wgmma/row_tile.cuh"
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
        const KeyBlocks blocks = order.blocks_of(tile);
        for (int pass = 0;; ++pass) {
          if (threadIdx.x < kCopying)
            copies.copy_blocks(HeadOperand(call_.k, call_.keys, tile.keys, tile.head / call_.group), blocks,
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
  static constexpr int kTiles = kKeys / 8;
  static constexpr Registers kRegisters = registers_of(kTile);
  static constexpr int kAll = 64 * 1024, kFirst = kAll / (kMultiplying + kWarpgroup) / 8 * 8;
  static_assert(kRegisters.copying + kTile.warpgroups * kRegisters.multiplying <=
                    (kTile.warpgroups + 1) * kFirst,
                "who takes registers waits for those that others of the block have given");
  static constexpr Blind kBlind = blind_rows<S>(kTile);
  static constexpr bool kForgetsTokens = Shared::kSharesOut || kBlind == Blind::adds_nothing;
  static constexpr bool kMayHaveRanges = may_have_ranges<S>(kTile);
  using Order = TileOrder<Shared::kSharesOut, kRows, kMayHaveRanges>;
  using Rows = LaneRow<S>[kRowsALane];
  using Outputs = typename Shared::Outputs;

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

  /// note: made anew where it is asked for, or registers would have what is made of it from tile to tile.
  static __device__ __forceinline__ int thread() {
    return static_cast<int>(tile::kept(threadIdx.x)) - kWarpgroup;
  }
  static __device__ __forceinline__ int warpgroup() { return tile::of_warp(thread() / kWarpgroup); }
  static __device__ __forceinline__ int first_row_of_warp() {
    return tile::of_warp(thread() / 32 * kRowsAWarp);
  }

  /// Rows from their first key block to their ends; whether they are to be computed again, by weights that do
  /// wait for key blocks' largest scores. at: of the first key block, then of the next tile's.
  __device__ __forceinline__ bool attend_rows(const Order& order, std::int32_t i, Place<kStages>& at) {
    const RowTile tile = order.at(i);
    if (tile.begin >= tile.queries.length) return false;
    const Sequence& queries = tile.queries;
    const std::int32_t begin = tile.begin, key_head = tile.head / call_.group;
    const HeadOperand q(call_.q, call_.queries, queries, tile.head),
        v(call_.v, call_.keys, tile.keys, key_head);
    const HeadBias bias(call_, queries.batch, tile.head);
    const Visibility visibility{call_, queries.length, tile.keys.length};
    const KeyBlocks blocks = order.blocks_of(tile);
    const S scheme = scheme_of<S>(call_);
    const std::int32_t first_row = begin + first_row_of_warp();
    // Nobody reads the rows of the tile before any more.
    if constexpr (Shared::kSharesOut) sync_warpgroup();
    load_q<S, Tiles>(call_, q, first_row, queries.length, first_row_of_warp() % kRowsAWarpgroup,
                     addresses_.q(warpgroup()), shared_.tiles.q[warpgroup()]);
    ptx::commit_copies();
    Rows rows;
    float scales[RowScales<S>::kCount];
    scales_of_rows<S>(q, first_row, queries.length, 0).read(scales);
    open_rows(rows, scheme, scales, first_row, 0);
    if constexpr (Shared::kParksRows) shared_.rows[thread()] = {rows[0].row, rows[1].row};
    auto& channels = channels_of_rows();
    constexpr int kOfChannels = Shared::kSharesOut ? kWarpgroup : kMultiplying;
    for (int c = thread() % kOfChannels; c < kTile.head_dim; c += kOfChannels)
      channels[c] = scheme.channel(end_scales(v, min(c, call_.dim_v - 1)));
    ptx::wait_copies<0>();
    ptx::show_to_matrix_units();
    sync_warpgroup();

    Outputs outputs(shared_.of_outputs[thread() / 32]);
    if constexpr (Shared::kWeighsEarly) {
      Shared::Early::park_rows({shared_.early_rows, thread()}, scheme, rows);
    }
    visit_blocks(rows, outputs, scheme, bias, visibility, blocks, begin, first_row, at);
    if constexpr (Shared::kWeighsEarly) {
      if (goes_again(Shared::Early::has_failed({shared_.early_rows, thread()}))) [[unlikely]]
        return true;
    }
    if constexpr (Shared::kSharesOut) {
      const std::int32_t again = tile_of_warp();
      end_rows_of(order, order.at(again), order.is_last(again), rows, outputs, scheme);
    } else {
      end_rows_of(order, tile, true, rows, outputs, scheme);
    }
    return false;
  }

  /// The pass that a tile is in, or how the first one ended. note: in shared memory, for no register has it.
  __device__ __forceinline__ Pass pass() const { return static_cast<const volatile Pass&>(shared_.pass); }
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

  __device__ __forceinline__ void end_rows_of(const Order& order, const RowTile& tile, bool is_last,
                                              Rows& rows, Outputs& outputs, const S& scheme) {
    const Sequence& queries = tile.queries;
    const std::int32_t first_row = tile.begin + first_row_of_warp();
    close_rows(rows);
    // No bias hides keys here: what a row saw is known from where it stands, and no register counts blocks.
    put_tokens(rows, first_row);
#pragma unroll
    for (LaneRow<S>& row : rows) {
      const KeyRange range = Visibility{call_, queries.length, tile.keys.length}.of(row.token);
      row.blocks_seen = range.begin < range.end;
    }
    std::int32_t head = tile.head;
    if constexpr (kMayHaveRanges) {
      if (call_.has_ranges) [[unlikely]] {
        head += static_cast<std::int32_t>(blockIdx.z) * call_.ranges.heads;
        see_only(order.blocks_of(tile), tile, rows);
      }
    }
    // Nobody reads the tiles any more, whose place the rows take.
    if constexpr (!Shared::kSharesOut) ptx::sync_threads(kOfProducts, kMultiplying);
    if (is_last) ptx::let_the_next_kernel_start();
    const RowStore store(call_, queries, head);
    StagedRow<kTile.head_dim>* staged = shared_.outputs() + first_row_of_warp();
    const auto ends = end_rows(scheme, outputs, rows, channels_of_rows(), store, staged);
    __syncwarp();
    store.template rows<kRowsAWarp>(staged, first_row, queries.length, call_.dim_v);
    store_ends<kRowsALane>(scheme, rows, ends, store, first_row, 0, queries.length);
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
  static constexpr int kFirstOfWarpgroups = 2;  ///< barriers 0 and 1 are of all
  static __device__ __forceinline__ void sync_warpgroup() {
    ptx::sync_threads(kFirstOfWarpgroups + warpgroup(), kWarpgroup);
  }

  /// The rows' tokens anew: no register has them through the loop of key blocks.
  static __device__ __forceinline__ void put_tokens(Rows& rows, std::int32_t first_row) {
    const int lane = static_cast<int>(tile::kept(threadIdx.x)) % 32;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) rows[r].token = first_row + lane / 4 + 8 * r;
  }

  __device__ __forceinline__ void visit_blocks(Rows& rows, Outputs& outputs, const S& scheme,
                                               const HeadBias& bias, const Visibility& visibility,
                                               const KeyBlocks& blocks, std::int32_t begin,
                                               std::int32_t first_row, Place<kStages>& at) {
    const int warpgroup = this->warpgroup();
    const SeenByRows by_warpgroup(visibility, bias, blocks, kKeys, begin + warpgroup * kRowsAWarpgroup,
                                  kRowsAWarpgroup);
    const SeenByRows by_warp(visibility, bias, blocks, kKeys, first_row, kRowsAWarp);
    const std::int32_t first = tile::of_warp(blocks.first), end = tile::of_warp(blocks.end);
    const BlockRange some{tile::of_warp(by_warpgroup.some.begin), tile::of_warp(by_warpgroup.some.end)};
    const BlockRange whole{tile::of_warp(by_warp.whole.begin), tile::of_warp(by_warp.whole.end)};
    const std::uint32_t q = Tiles::Q::low_word(addresses_.q(warpgroup));
    if constexpr (Shared::kWeighsEarly) {
      const BlockRange seen{min(max(first, some.begin), end), min(end, some.end)};
      pass_blocks(seen.begin - first, at);
      if (seen.begin < seen.end)
        visit_seen_blocks(rows, outputs, scheme, bias, visibility, blocks, seen, whole,
                          {tile::of_warp(by_warpgroup.whole.begin),
                           tile::of_warp(pass() == Pass::first ? by_warpgroup.whole.end : 0)},
                          first_row, q, at);
      pass_blocks(end - max(seen.begin, seen.end), at);
    } else if constexpr (Shared::kTracks) {
      const BlockRange seen{min(max(first, some.begin), end), min(end, some.end)};
      // From the block on before which all rows have seen a key.
      const BlockRange tracked{tile::of_warp(by_warpgroup.all_before),
                               tile::of_warp(call_.packed.channels ? 0 : by_warpgroup.whole.end)};
      pass_blocks(seen.begin - first, at);
      if (seen.begin < seen.end)
        track_seen_blocks(rows, outputs, scheme, bias, visibility, blocks, seen, whole, tracked, q, at);
      pass_blocks(end - max(seen.begin, seen.end), at);
    } else {
#pragma unroll 1
      for (std::int32_t i = first; i < end; ++i) {
        const bool sees = is_in(some, i);
        ptx::wait(addresses_.is_full(at.stage, 0), at.parity);
        PWords<S, kTiles>
            p{};  // note: left as it is, registers keep it through the loop, as in mma/attend.cuh
        if (sees) {
          typename S::Acc acc[kTiles][4];
          begin_qk<S, Tiles>(acc, q, Tiles::K::low_word(addresses_.k(at.stage)));
          ptx::wait_products<0>();
          ptx::pin(acc);
          const auto& constants = shared_.constants[at.stage];
          const bool sees_all = tile::opaque(is_in(whole, i));
          if constexpr (kForgetsTokens) forget_tokens(rows);
          if (!sees_all) put_tokens(rows, first_row);
          if constexpr (Shared::kParksRows) {
            const auto& of_lane = shared_.rows[thread()];
            rows[0].row = of_lane.of[0], rows[1].row = of_lane.of[1];
          }
          weigh_block<Masses::of_lane, kKeys, kBlind>(acc, p, rows, scheme, call_, constants.keys,
                                                      constants.block, blocks.at(i), visibility, bias,
                                                      sees_all);
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
  }

  /// Blocks of which the warpgroup's rows see nothing.
  __device__ __forceinline__ void pass_blocks(std::int32_t count, Place<kStages>& at) {
#pragma unroll 1
    for (; count > 0; --count) {
      ptx::wait(addresses_.is_full(at.stage, 0), at.parity);
      release(at.stage, 0);
      at.next();
    }
  }

  /// Blocks `seen`. Weights of those in `early`, of which all of the warpgroup's rows see all keys, do not
  /// wait for the block's largest score (early_weights.cuh), but for the first, after which rows have a
  /// reference.
  __device__ __forceinline__ void visit_seen_blocks(Rows& rows, Outputs& outputs, const S& scheme,
                                                    const HeadBias& bias, const Visibility& visibility,
                                                    const KeyBlocks& blocks, const BlockRange& seen,
                                                    const BlockRange& whole, const BlockRange& early,
                                                    std::int32_t first_row, std::uint32_t q,
                                                    Place<kStages>& at) {
    using Early = typename Shared::Early;
    const typename Early::Parked parked(shared_.early_rows, thread());
    typename S::Acc acc[kTiles][4];
    ptx::wait(addresses_.is_full(at.stage, 0), at.parity);
    begin_qk<S, Tiles>(acc, q, Tiles::K::low_word(addresses_.k(at.stage)));
    ptx::wait_products<0>();
    ptx::pin(acc);
    // Q K^T of the next block; behind the last one it is that one's again, whose scores nobody looks at.
    const auto next_of = [&](std::int32_t i) {
      Place<kStages> next = at;
      if (i + 1 < seen.end) next.next();
      ptx::wait(addresses_.is_full(next.stage, 0), next.parity);
      return Tiles::K::low_word(addresses_.k(next.stage));
    };
    const auto leave = [&] {
      ptx::wait_products<0>();
      ptx::pin(acc);
      release(at.stage, 0);
      at.next();
    };
    const auto channels = [&] {
      return call_.packed.channels ? shared_.constants[at.stage].channels : nullptr;
    };
    std::int32_t i = seen.begin;
#pragma unroll 1
    do {
      const auto& constants = shared_.constants[at.stage];
      PWords<S, kTiles> p{};
      Early::unpark(rows, parked);
      forget_tokens(rows);
      put_tokens(rows, first_row);
      weigh_block<Masses::of_lane, kKeys, kBlind>(acc, p, rows, scheme, call_, constants.keys,
                                                  constants.block, blocks.at(i), visibility, bias,
                                                  tile::opaque(is_in(whole, i)));
      Early::park_states(parked, scheme, rows);
      outputs.template add<typename Tiles::V>(scheme, rows, p, Tiles::V::low_word(addresses_.v(at.stage)),
                                              channels());
      begin_qk<S, Tiles>(acc, q, next_of(i));
      leave();
      const std::int32_t first_early = ++i;
#pragma unroll 1
      for (; i < seen.end && is_in(early, i); ++i) {
        PWords<S, kTiles> of_block{};
        typename Early::Sums sum;
        if (Early::weigh(scheme, acc, shared_.constants[at.stage].keys, parked, rows, of_block, sum))
            [[unlikely]] {
          parked.is_far = 1;
          outputs.open(scheme, rows);  // by 0: the rows are computed once more
        }
        const typename Early::Sums before = parked.sums();
        const std::uint32_t k = next_of(i);
        typename Outputs::Sums pv;
        Outputs::template begin<typename Tiles::V>(pv, of_block, Tiles::V::low_word(addresses_.v(at.stage)));
        begin_qk<S, Tiles>(acc, q, k);
        Early::add(parked, before, sum);
        outputs.template end<1>(scheme, rows, pv, channels());
        leave();
      }
      if (i > first_early) Early::settle(parked);
    } while (i < seen.end);
    Early::unpark(rows, parked);
  }

  /// Blocks `seen` of rows whose weights ask for no largest score in blocks `tracked` (tracked_weights.cuh).
  __device__ __forceinline__ void track_seen_blocks(Rows& rows, Outputs& outputs, const S& scheme,
                                                    const HeadBias& bias, const Visibility& visibility,
                                                    const KeyBlocks& blocks, const BlockRange& seen,
                                                    const BlockRange& whole, const BlockRange& tracked,
                                                    std::uint32_t q, Place<kStages>& at) {
    using Tracked = TrackedWeights<S, kTiles, kKeys>;
    typename S::Acc acc[kTiles][4];
    const auto qk = [&] {
      ptx::wait(addresses_.is_full(at.stage, 0), at.parity);
      begin_qk<S, Tiles>(acc, q, Tiles::K::low_word(addresses_.k(at.stage)));
      ptx::wait_products<0>();
      ptx::pin(acc);
    };
    const auto leave = [&] {
      release(at.stage, 0);
      at.next();
    };
    // Rows behind the sequence may see no key at all: they have a reference all the same.
#pragma unroll
    for (LaneRow<S>& row : rows)
      if (row.token >= visibility.queries) row.state.reference = 0;
    std::int32_t i = seen.begin;
#pragma unroll 1
    do {
      qk();
      PWords<S, kTiles> p{};
      const auto& constants = shared_.constants[at.stage];
      weigh_block<Masses::of_lane, kKeys, kBlind>(acc, p, rows, scheme, call_, constants.keys,
                                                  constants.block, blocks.at(i), visibility, bias,
                                                  tile::opaque(is_in(whole, i)));
      outputs.template add<typename Tiles::V>(scheme, rows, p, Tiles::V::low_word(addresses_.v(at.stage)),
                                              call_.packed.channels ? constants.channels : nullptr);
      leave();
      ++i;
#pragma unroll 1
      for (; i < seen.end && is_in(tracked, i); ++i) {
        qk();
        PWords<S, kTiles> weights;
        const auto block = Tracked::weigh(scheme, acc, shared_.constants[at.stage].keys, rows, weights);
        if (ptx::any_of_threads(kFirstOfWarpgroups + warpgroup(), kWarpgroup, Tracked::has_left(block)))
            [[unlikely]]
          break;  // and the block is weighed like the first one
        outputs.template begin_adding<typename Tiles::V>(weights, Tiles::V::low_word(addresses_.v(at.stage)));
        Tracked::absorb(block, rows);
        ptx::wait_products<0>();
        outputs.pin();
        leave();
        if (Tracked::any_high(block)) [[unlikely]] {
          Tracked::follow(block, rows);
          outputs.open(scheme, rows);
        }
      }
    } while (i < seen.end);
  }
  static_assert(!Shared::kTracks || (kSets == 1 && Outputs::kIsOneProduct && !kForgetsTokens),
                "a buffer has K and V");
  static_assert(!Shared::kWeighsEarly || (kStages > 1 && Outputs::kIsOneProduct),
                "K of the next block comes meanwhile");

  /// The same as has(). note: where tiles are shared out by signs, which registers of the warp have;
  /// comparisons want one side in the lanes' registers, where the ranges would then lie through the loop.
  static __device__ __forceinline__ bool is_in(const BlockRange& range, std::int32_t i) {
    return Shared::kSharesOut ? ((i - range.begin) | (range.end - 1 - i)) >= 0 : range.has(i);
  }

  __device__ __forceinline__ void release(int stage, int set) const {
    __syncwarp();
    ptx::arrive_if(threadIdx.x % 32 == 0, addresses_.is_free(stage, set));
  }

  const Call& call_;
  Shared& shared_;
  const SharedAddresses<S, kTile> addresses_;
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
