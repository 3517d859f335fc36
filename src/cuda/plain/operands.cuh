// The operands of a head's short sequence from plain rows to shared memory: codes and constants of all keys,
// f16 of V, and codes of a tile of queries, by all warps of a block of threads.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cuda/attn/key_arrays.cuh"
#include "cuda/mma/products.cuh"
#include "cuda/plain/codes.cuh"
#include "cuda/plain/launch.cuh"
#include "lanes/device.h"
#include "lanes/scalar.h"

namespace octet::cuda::plain {

/// Scheme: of the contract (numerics/contract.h), of s8 and f16, as a template of lanes, for its constants of
/// keys are made by a lane of one, as packing makes them. Base: a kernel of mma's with that tile, which
/// keeps keys.
template <template <class> class Scheme, mma::Tile kTile, class Base>
class Operands : protected Base {
 protected:
  using S = Scheme<DeviceLane>;
  using Base::call_, Base::shared_;
  using typename Base::Shared;
  using typename Base::Threads;
  using typename Base::Tiles;
  static constexpr std::int32_t kBytesOfK = sizeof(Tiles::k[0]), kBytesOfV = sizeof(Tiles::v[0]);
  static_assert(S::kQk == Operand::s8 && S::kV == Operand::f16 && kTile.head_dim == kDim &&
                std::is_empty_v<typename S::Block> && mma::kRowsAWarp == kRowsAtOnce);

  __device__ Operands(const Call& call, const PlainSequences& plain, Shared& shared)
      : Base(call, shared), plain_(plain) {}

  // note: unsigned, so that a shift divides.
  static __device__ __forceinline__ std::int32_t warps() {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(Threads::count()) / kWarp);
  }
  static __device__ __forceinline__ std::int32_t warp() {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(Threads::number()) / kWarp);
  }

  /// Of one batch entry.
  struct Head {
    std::int32_t sequence, number;
  };
  /// Rows of queries as many as a warp computes. first: the first one; to: the shared address of their codes.
  struct QueryTile {
    std::int32_t first;
    std::uint32_t to;
  };
  enum class Puts { keys_too, queries };
  /// Which warps make codes of queries: all, or those whose tile begins with a row that there is.
  enum class Makers { all, some };

  /// A tile of queries in its place, and before it the warp's part of K and V; the scale of the row that the
  /// lane has one of. All threads see them behind the next barrier.
  template <Makers kMakers>
  __device__ __forceinline__ float put_operands(Head head, QueryTile tile, Puts puts) {
    using Parts = TokenCodes::Parts;
    const std::uint32_t byte = Parts::part() * Parts::kBytes;
    const auto own_row = static_cast<std::int32_t>(Parts::row());
    const HeadRows keys(plain_.k, head.sequence, head.number, byte),
        queries(plain_.q, head.sequence, head.number, byte);
    const std::int32_t count = call_.keys.tokens, step = warps() * kRowsAtOnce;
    // Rows of K from number `first` on; behind them the tile's.
    std::int32_t first = puts == Puts::keys_too ? warp() * kRowsAtOnce : count;
    const auto read = [&] {
      const bool are_keys = first < count;
      return Parts::read(are_keys ? keys.row(first + own_row) : queries.row(tile.first + own_row),
                         are_keys ? keys.row_bytes : queries.row_bytes,
                         are_keys ? count - first : call_.queries.tokens - tile.first);
    };
    // What comes first is asked for at once.
    Parts next = read();
    const HeadRows of_v(plain_.v, head.sequence, head.number, Values::Parts::part() * Values::Parts::kBytes);
    Values::Parts values{};
    if (puts == Puts::keys_too) values = read_values(of_v, warp());
    const TokenCodes codes(plain_.coded);
    const auto packed = attn::scheme_of<Scheme<ScalarLane>>(call_);
    const std::uint32_t to_k = ptx::shared_address(shared_.tiles.k[0]);
    float scale = 0;
#pragma unroll 1
    while (true) {
      const Parts parts = next;
      const std::int32_t now = first;
      const bool are_keys = now < count;
      if constexpr (kMakers == Makers::some) {
        if (!are_keys && tile.first >= call_.queries.tokens) break;
      }
      if (are_keys) first += step, next = read();
      // note: key blocks are of whole sixteens of keys.
      const std::int32_t block = block_of(now, call_.key_block), begin = now - block * call_.key_block;
      scale = codes.put(
          parts, are_keys ? to_k + static_cast<std::uint32_t>(block * kBytesOfK + begin * kDim) : tile.to);
      if (!are_keys) break;
      const std::int32_t own = TokenCodes::scaled_row();
      if (now + own < count)
        attn::put_key(shared_.tiles.keys[block], kTile.keys, begin + own, packed.key({scale, 1.0f}, {}));
    }
    if (puts == Puts::keys_too) {
      put_no_keys();
      put_values(of_v, values);
      const attn::Sequence all{head.sequence, head.sequence, 0, count};
      Base::put_channels(attn::HeadOperand(call_.v, call_.keys, all, head.number));
    }
    return scale;
  }

 private:
  /// Constants behind the last key.
  __device__ __forceinline__ void put_no_keys() {
    const std::int32_t count = call_.keys.tokens, last = block_of(count - 1, call_.key_block);
    for (std::int32_t place = count - last * call_.key_block + Threads::number(); place < kTile.keys;
         place += Threads::count())
      attn::put_key(shared_.tiles.keys[last], kTile.keys, place, typename Scheme<ScalarLane>::Key{});
  }

  /// The key block that a place lies in, of as many as stay, of `size` places each.
  static __device__ __forceinline__ std::int32_t block_of(std::int32_t place, std::int32_t size) {
    std::int32_t block = 0;
#pragma unroll
    for (std::int32_t i = 1; i < Tiles::kStages; ++i) block += place >= i * size ? 1 : 0;
    return block;
  }
  /// Sixteens of a block's places that V has rows of. Parts compute a block by halves of the most there may
  /// be.
  static constexpr std::int32_t kOfBlock =
      ((kTile.key_parts > 1 ? kTile.keys : kTile.computed) + kRowsAtOnce - 1) / kRowsAtOnce;
  /// Sixteen number i of all blocks' places.
  __device__ __forceinline__ Values::Parts read_values(const HeadRows& rows, std::int32_t i) const {
    const std::int32_t block = block_of(i, kOfBlock), begin = (i - block * kOfBlock) * kRowsAtOnce,
                       size = call_.key_block, first = block * size + begin;
    return Values::Parts::read(rows.row(first + static_cast<std::int32_t>(Values::Parts::row())),
                               rows.row_bytes, begin < size ? call_.keys.tokens - first : 0);
  }
  /// V in f16, zeros behind the last key of each block. next: the warp's first sixteen.
  __device__ __forceinline__ void put_values(const HeadRows& rows, Values::Parts next) {
    const std::int32_t all = (block_of(call_.keys.tokens - 1, call_.key_block) + 1) * kOfBlock;
    const std::uint32_t to = ptx::shared_address(shared_.tiles.v[0]);
#pragma unroll 1
    for (std::int32_t i = warp(); i < all; i += warps()) {
      const Values::Parts parts = next;
      next = read_values(rows, i + warps());
      const std::int32_t block = block_of(i, kOfBlock), begin = (i - block * kOfBlock) * kRowsAtOnce;
      Values::put(parts, plain_.dtype_v,
                  to + static_cast<std::uint32_t>(block * kBytesOfV + begin * Values::kRow));
    }
  }

  const PlainSequences& plain_;
};

}  // namespace octet::cuda::plain
