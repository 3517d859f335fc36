// Attention of a short sequence from plain rows to outputs: a block of threads makes codes of all keys and
// f16 of V, and computes some tiles of rows, of which each warp makes codes of its own. What the quantiser,
// packing and attention do in launches of their own, without the ways between them through memory.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cuda/mma/attend_in_turn.cuh"
#include "cuda/plain/codes.cuh"
#include "cuda/plain/launch.cuh"
#include "lanes/device.h"
#include "lanes/scalar.h"

namespace octet::cuda::plain {

/// Scheme: of the contract (numerics/contract.h), of s8 and f16, as a template of lanes, for its constants of
/// keys are made by a lane of one, as packing makes them. kIndex: of a tile that keeps keys.
template <template <class> class Scheme, int kIndex>
class Attention : mma::RowsInTurn<Scheme<DeviceLane>, mma::kTileTable[kIndex]> {
  static constexpr mma::Tile kTile = mma::kTileTable[kIndex];
  using S = Scheme<DeviceLane>;
  using Base = mma::RowsInTurn<S, kTile>;
  using Base::call_, Base::shared_, Base::scheme_, Base::thread_;
  using typename Base::Rows;
  using typename Base::Shared;
  using typename Base::Tiles;
  static_assert(S::kQk == Operand::s8 && S::kV == Operand::f16 && kTile.head_dim == kDim &&
                std::is_empty_v<typename S::Block> && mma::kRowsAWarp == kRowsAtOnce);

 public:
  __device__ Attention(const Call& call, const PlainSequences& plain, Shared& shared)
      : Base(call, shared), plain_(plain) {}

  __device__ __forceinline__ void run() {
    ptx::wait_for_earlier_kernels();
    if (call_.next_starts == NextStarts::early) ptx::let_the_next_kernel_start();
#pragma unroll 1
    for (std::int32_t turn = 0; Base::has_turn(turn); ++turn) {
      const float scale = put_operands(turn);
      attend_rows(scale, turn);
      if (turn == 0 && call_.next_starts == NextStarts::late) ptx::let_the_next_kernel_start();
    }
  }

 private:
  static __device__ __forceinline__ std::int32_t warps() {
    return static_cast<std::int32_t>(blockDim.x / kWarp);
  }
  static __device__ __forceinline__ std::int32_t warp() {
    return static_cast<std::int32_t>(Base::own_warp());
  }

  /// Q of a tile of rows, and before the first one K and V, in their places; the scale of the row that the
  /// lane has one of. note: what this knows is made anew for each tile, so that registers keep nothing of it
  /// through the key blocks.
  __device__ __forceinline__ float put_operands(std::int32_t turn) {
    const typename Base::Place at = Base::place();
    using Parts = TokenCodes::Parts;
    const std::uint32_t byte = Parts::part() * Parts::kBytes;
    const auto own_row = static_cast<std::int32_t>(Parts::row());
    const HeadRows keys(plain_.k, at.sequence, at.head, byte), queries(plain_.q, at.sequence, at.head, byte);
    const std::int32_t count = call_.keys.tokens, step = warps() * kRowsAtOnce;
    const std::int32_t first_row = at.first + turn * Base::rows_a_turn() + Base::first_row_of_warp();
    // Rows of K from number `first` on; behind them the warp's of the tile.
    std::int32_t first = turn == 0 ? warp() * kRowsAtOnce : count;
    const auto read = [&] {
      const bool are_keys = first < count;
      return Parts::read(are_keys ? keys.row(first + own_row) : queries.row(first_row + own_row),
                         are_keys ? keys.row_bytes : queries.row_bytes,
                         are_keys ? count - first : call_.queries.tokens - first_row);
    };
    // What comes first is asked for at once.
    Parts next = read();
    const HeadRows of_v(plain_.v, at.sequence, at.head, Values::Parts::part() * Values::Parts::kBytes);
    Values::Parts values{};
    if (turn == 0) values = read_values(of_v, warp());
    const TokenCodes codes(plain_.coded);
    const auto packed = attn::scheme_of<Scheme<ScalarLane>>(call_);
    const std::uint32_t to_k = ptx::shared_address(shared_.tiles.k[0]),
                        to_q = ptx::shared_address(shared_.tiles.q) + Base::query_buffer(turn) +
                               static_cast<std::uint32_t>(Base::first_row_of_warp() * kDim);
    float scale;
#pragma unroll 1
    while (true) {
      const Parts parts = next;
      const std::int32_t now = first;
      const bool are_keys = now < count;
      if (are_keys) first += step, next = read();
      // note: key blocks are of whole sixteens of keys.
      const std::int32_t block = now >= call_.key_block ? 1 : 0, begin = now - block * call_.key_block;
      scale = codes.put(
          parts, are_keys ? to_k + static_cast<std::uint32_t>(block * kBytesOfK + begin * kDim) : to_q);
      if (!are_keys) break;
      const std::int32_t own = TokenCodes::scaled_row();
      if (now + own < count)
        attn::put_key(shared_.tiles.keys[block], kTile.keys, begin + own, packed.key({scale, 1.0f}, {}));
    }
    if (turn == 0) {
      put_no_keys();
      put_values(of_v, values);
      const attn::Sequence all{at.sequence, at.sequence, 0, count};
      Base::put_channels(attn::HeadOperand(call_.v, call_.keys, all, at.head));
      __syncthreads();
    } else {
      __syncwarp();
    }
    return scale;
  }

  /// Constants behind the last key.
  __device__ __forceinline__ void put_no_keys() {
    const std::int32_t count = call_.keys.tokens, last = count > call_.key_block ? 1 : 0;
    for (std::int32_t place = count - last * call_.key_block + thread_; place < kTile.keys;
         place += warps() * kWarp)
      attn::put_key(shared_.tiles.keys[last], kTile.keys, place, typename Scheme<ScalarLane>::Key{});
  }

  static constexpr std::int32_t kBytesOfK = sizeof(Tiles::k[0]), kBytesOfV = sizeof(Tiles::v[0]);
  static constexpr std::int32_t kOfBlock = (kTile.computed + kRowsAtOnce - 1) / kRowsAtOnce;
  /// Sixteen number i of all blocks' places.
  __device__ __forceinline__ Values::Parts read_values(const HeadRows& rows, std::int32_t i) const {
    const std::int32_t block = i >= kOfBlock ? 1 : 0, begin = (i - block * kOfBlock) * kRowsAtOnce,
                       size = call_.key_block, first = block * size + begin;
    return Values::Parts::read(rows.row(first + static_cast<std::int32_t>(Values::Parts::row())),
                               rows.row_bytes, begin < size ? call_.keys.tokens - first : 0);
  }
  /// V in f16, zeros behind the last key of each block. next: the warp's first sixteen.
  __device__ __forceinline__ void put_values(const HeadRows& rows, Values::Parts next) {
    const std::int32_t all = call_.keys.tokens > call_.key_block ? 2 * kOfBlock : kOfBlock;
    const std::uint32_t to = ptx::shared_address(shared_.tiles.v[0]);
#pragma unroll 1
    for (std::int32_t i = warp(); i < all; i += warps()) {
      const Values::Parts parts = next;
      next = read_values(rows, i + warps());
      const std::int32_t block = i >= kOfBlock ? 1 : 0, begin = (i - block * kOfBlock) * kRowsAtOnce;
      Values::put(parts, plain_.dtype_v,
                  to + static_cast<std::uint32_t>(block * kBytesOfV + begin * Values::kRow));
    }
  }

  /// The warp's rows of a tile, and their outputs. V is turned around as it is multiplied.
  __device__ __forceinline__ void attend_rows(float scale, std::int32_t turn) {
    float scales[attn::RowScales<S>::kCount];
    static_assert(attn::RowScales<S>::kCount == TokenCodes::kSteps, "a lane opens a row of each step");
#pragma unroll
    for (std::uint32_t step = 0; step < TokenCodes::kSteps; ++step)
      scales[step] = __shfl_sync(tile::kAllLanes, scale, static_cast<int>(step), TokenCodes::kLanesOfRow);
    Rows rows;
    attn::open_rows(rows, scheme_, scales, 0, 0);
    attn::forget_tokens(rows);
    rows[0].blocks_seen = rows[1].blocks_seen = 1;
    typename attn::Outputs<S, kDim / 8>::Local local;
    attn::Outputs<S, kDim / 8> outputs(shared_.sums(blockDim.x / kWarp, threadIdx.x / kWarp), local);
    const auto by_keys = mma::Place<Values::kRow>::of_rows();
    const auto fold = [&](const auto& p, const attn::KeyBlock& block) {
      Base::fold_products(rows, outputs, block, [&](auto& pv, int first) {
        mma::multiply_pv_by_keys<S::kP, S::kV, Values::kRow>(pv, p.word, Base::address_of_v(block), by_keys,
                                                             first);
      });
    };
    Base::attend_blocks(
        rows, turn, [](std::int32_t) {}, fold);
    if (Base::has_rows(turn)) Base::end(rows, outputs, turn);
  }

  const PlainSequences& plain_;
};

/// A block of threads that keeps keys leaves room for so many on a processor, by what mma's kernels take.
inline constexpr int kThreads = mma::kMostWarps * kWarp, kBlocksOfProcessor = 3;

/// Grid: [tiles of rows of all sequences, heads].
template <template <class> class Scheme, int kIndex>
__global__ __launch_bounds__(kThreads,
                             kBlocksOfProcessor) void attend(const __grid_constant__ Call call,
                                                             const __grid_constant__ PlainSequences plain) {
  OCTET_DYNAMIC_SHARED(memory, 512);
  using Shared = mma::SharedPlan<Scheme<DeviceLane>, mma::kTileTable[kIndex]>;
  Attention<Scheme, kIndex>(call, plain, *reinterpret_cast<Shared*>(memory)).run();
}

}  // namespace octet::cuda::plain
