// Key blocks as the warpgroups that multiply go through them: each waits for a block's copies, makes scores
// and weights of it, adds P V to its rows' outputs, and leaves the buffer.
//
// Inside a warpgroup nothing overlaps: Q K^T, softmax, P V and fold follow each other, and scores and sums of
// P V take turns in the registers. The matrix units work for one warpgroup while the others make weights.
// Where registers hold scores and sums of P V beside each other, Q K^T of the next key block is under way
// while this one's sums are folded (weighs_early in shared_plan.cuh). Where P are halves and one product has
// all channels, P V is added to the outputs as it is made (tracks_weights).
#pragma once
#include <algorithm>
#include <cstdint>

#include "cuda/attn/key_block.cuh"
#include "cuda/attn/rows.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/warpgroup.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/wgmma/early_weights.cuh"
#include "cuda/wgmma/qk.cuh"
#include "cuda/wgmma/row_outputs.cuh"
#include "cuda/wgmma/shared_plan.cuh"
#include "cuda/wgmma/tile.h"
#include "cuda/wgmma/tracked_weights.cuh"

namespace octet::cuda::wgmma {

/// Of a block of threads' warpgroups that multiply; what they know of themselves is here too.
template <class S, Tile kTile>
class KeyBlockVisits {
 public:
  using Shared = SharedPlan<S, kTile>;
  using Tiles = OperandTiles<S, kTile>;
  static constexpr int kStages = Shared::kStages, kSets = Shared::kSets;

 protected:
  using Rows = LaneRow<S>[kRowsALane];
  using Outputs = typename Shared::Outputs;

  __device__ KeyBlockVisits(const Call& call, Shared& shared)
      : call_(call), shared_(shared), addresses_(shared) {}

  /// note: made anew where it is asked for, or registers would have what is made of it from tile to tile.
  static __device__ __forceinline__ int thread() {
    return static_cast<int>(tile::kept(threadIdx.x)) - kWarpgroup;
  }
  static __device__ __forceinline__ int warpgroup() { return tile::of_warp(thread() / kWarpgroup); }
  static __device__ __forceinline__ int first_row_of_warp() {
    return tile::of_warp(thread() / 32 * kRowsAWarp);
  }

  /// The pass that a tile is in, or how the first one ended. note: in shared memory, for no register has it.
  __device__ __forceinline__ Pass pass() const { return static_cast<const volatile Pass&>(shared_.pass); }

  /// The rows' tokens anew: no register has them through the loop of key blocks.
  static __device__ __forceinline__ void put_tokens(Rows& rows, std::int32_t first_row) {
    const int lane = static_cast<int>(tile::kept(threadIdx.x)) % 32;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) rows[r].token = first_row + lane / 4 + 8 * r;
  }

  static constexpr int kFirstOfWarpgroups = 2;  ///< barriers 0 and 1 are of all

  /// Query rows that a block of threads computes: warpgroups behind the end have none.
  struct ComputedRows {
    std::int32_t begin, end;
  };
  /// All of `blocks`, those of which the warp's rows see nothing too. first_row: of the warp. at: of the
  /// first block, then behind the last one.
  __device__ __forceinline__ void visit_blocks(Rows& rows, Outputs& outputs, const S& scheme,
                                               const HeadBias& bias, const Visibility& visibility,
                                               const KeyBlocks& blocks, const ComputedRows& computed,
                                               std::int32_t first_row, Place<kStages>& at) {
    const int warpgroup = this->warpgroup();
    const std::int32_t first_of_warpgroup = computed.begin + warpgroup * kRowsAWarpgroup;
    SeenByRows by_warpgroup(visibility, bias, blocks, kKeys, first_of_warpgroup, kRowsAWarpgroup);
    if (first_of_warpgroup >= computed.end) by_warpgroup.some = {};
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
                           tile::of_warp(pass() == Pass::first ? min(by_warpgroup.whole.end, seen.end) : 0)},
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
        const std::uint32_t k = word_of_products(Tiles::K::low_word(addresses_.k(at.stage))),
                            v = word_of_products(Tiles::V::low_word(addresses_.v(at.stage)));
        ptx::wait(addresses_.is_full(at.stage, 0), at.parity);
        PWords<S, kTiles>
            p{};  // note: left as it is, registers keep it through the loop, as in mma/attend.cuh
        if (sees) {
          typename S::Acc acc[kTiles][4];
          begin_qk<S, Tiles>(acc, q, k);
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
          weigh_block<Masses::of_lane, kKeys, kBlind, kPace>(acc, p, rows, scheme, call_, constants.keys,
                                                             constants.block, blocks.at(i), visibility, bias,
                                                             sees_all);
        }
        if constexpr (kSets > 1) {
          release(at.stage, 0);
          ptx::wait(addresses_.is_full(at.stage, 1), at.parity);
        }
        if (sees)
          outputs.template add<typename Tiles::V>(
              scheme, rows, p, v, call_.packed.channels ? shared_.constants[at.stage].channels : nullptr);
        release(at.stage, kSets - 1);
        at.next();
      }
    }
  }

 private:
  static constexpr int kTiles = kKeys / 8;
  static constexpr Blind kBlind = blind_rows<S>(kTile);
  static constexpr Pace kPace = pace_of<S>(kTile);
  static constexpr bool kForgetsTokens = Shared::kSharesOut || kBlind == Blind::adds_nothing;

  /// A tile's low word. note: of the one buffer of 16-bit operands of 256 channels; not told that it is the
  /// warp's, the compiler has each product's address come from registers of lanes.
  static __device__ __forceinline__ std::uint32_t word_of_products(std::uint32_t word) {
    return kSets > 1 ? tile::of_warp(word) : word;
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
  /// wait for the block's largest score (early_weights.cuh).
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
    if (is_in(early, i)) Early::refer_to_first_keys(parked, scheme, acc, shared_.constants[at.stage].keys);
#pragma unroll 1
    do {
      if (!is_in(early, i)) {
        const auto& constants = shared_.constants[at.stage];
        PWords<S, kTiles> p{};
        Early::unpark(rows, parked);
        forget_tokens(rows);
        put_tokens(rows, first_row);
        weigh_block<Masses::of_lane, kKeys, kBlind, kPace>(acc, p, rows, scheme, call_, constants.keys,
                                                           constants.block, blocks.at(i), visibility, bias,
                                                           tile::opaque(is_in(whole, i)));
        Early::park_states(parked, scheme, rows);
        outputs.template add<typename Tiles::V>(scheme, rows, p, Tiles::V::low_word(addresses_.v(at.stage)),
                                                channels());
        begin_qk<S, Tiles>(acc, q, next_of(i));
        leave();
        ++i;
      }
      const std::int32_t first_early = i;
#pragma unroll 1
      for (; is_in(early, i); ++i) {
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
      weigh_block<Masses::of_lane, kKeys, kBlind, kPace>(acc, p, rows, scheme, call_, constants.keys,
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

 protected:
  const Call& call_;
  Shared& shared_;
  const SharedAddresses<S, kTile> addresses_;
};

}  // namespace octet::cuda::wgmma
