// What a block of threads brings from global to shared memory: rows of Q, key blocks, and the constants that
// were packed with them; and where all of it lies.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/key_block.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/mma/copy_rows.cuh"
#include "cuda/mma/parked.cuh"
#include "cuda/mma/products.cuh"
#include "cuda/mma/shared_plan.cuh"
#include "cuda/mma/tile.h"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/threads.cuh"

namespace octet::cuda::mma {

using namespace attn;

template <class S, Tile kTile>
class Loads {
 public:
  using Shared = SharedPlan<S, kTile>;
  using Tiles = SharedTiles<S, kTile>;
  static constexpr bool kTwoBuffers = Tiles::kStages > 1;
  static constexpr int kParts = kTile.key_parts;
  static constexpr bool kParksKnown = Shared::kKeepsKnown == Keeps::in_shared_memory,
                        kParksPlaces = Shared::kKeepsPlaces == Keeps::in_shared_memory;
  static constexpr bool kMayHaveRanges = may_have_ranges(kTile) && MergesRanges<S>;
  using Queries = QueryHead<kMayHaveRanges ? Heads::may_be_joined : Heads::are_apart>;

  __device__ Loads(const Call& call, Shared& shared)
      : call_(call),
        shared_(shared),
        rows_a_block_(Divider::power_of_two(kLog2RowsAWarp + static_cast<std::int32_t>(blockDim.x / 64))),
        address_(tile::kept(ptx::shared_address(&shared))),
        thread_(kParksKnown ? tile::kept(Threads::number()) : Threads::number()),
        copies_(shared.copies),
        reads_(shared.reads) {
    reads_.set(thread_, ReadPlaces{address(shared_.tiles.q) + first_row_of_warp() * Tiles::kQkRow +
                                       Place<Tiles::kQkRow>::of_rows(flipped_rows()).offset(),
                                   Place<Tiles::kQkRow>::of_columns().offset(), place_in_v().offset()});
  }

 protected:
  using Threads = tile::Threads<kParts>;

  /// note: where registers are few, none keeps sums of the address and what is at hand in the loop.
  __device__ __forceinline__ std::uint32_t address(const void* member) const {
    return (kParksKnown ? tile::kept(address_) : address_) +
           static_cast<std::uint32_t>(static_cast<const std::byte*>(member) -
                                      reinterpret_cast<const std::byte*>(&shared_));
  }

  /// Key blocks that stay have a buffer each.
  static __device__ __forceinline__ int buffer_number(const KeyBlock& block) {
    return kTile.kept_blocks > 0 ? block.number : block.number & 1;
  }
  /// Where K and V of a key block lie, in shared memory.
  __device__ __forceinline__ std::uint32_t address_of_k(const KeyBlock& block) const {
    return buffer(address(shared_.tiles.k[0]), sizeof(shared_.tiles.k[0]), block);
  }
  __device__ __forceinline__ std::uint32_t address_of_v(const KeyBlock& block) const {
    return buffer(address(shared_.tiles.v[0]), sizeof(shared_.tiles.v[0]), block);
  }
  /// first: the first buffer's address. note: of one buffer it is always the same, of which the compiler is
  /// not told: registers would keep all that is made of it for the steps of the products, up to twelve words.
  static __device__ __forceinline__ std::uint32_t buffer(std::uint32_t first, std::uint32_t bytes,
                                                         const KeyBlock& block) {
    if constexpr (kTwoBuffers)
      return first + static_cast<std::uint32_t>(buffer_number(block)) * bytes;
    else
      return tile::kept(first);
  }

  /// The warp's number; where no register has the thread's, made anew.
  __device__ __forceinline__ int warp() const {
    if constexpr (kParksPlaces) return thread_ / 32;
    return static_cast<int>(tile::kept(threadIdx.x)) / 32 * kParts + Threads::part();
  }
  /// Rows of K and V that are as long have the same places in their tiles, and fragments of them where those
  /// of V are channels.
  static constexpr bool kSameRows = Tiles::kQkRow == Tiles::kVRow, kSameReads = kSameRows && !Tiles::kByKeys;
  using PlaceOfV = Place<Tiles::kVRow>;
  static __device__ __forceinline__ PlaceOfV place_in_v() {
    return Tiles::kByKeys ? PlaceOfV::of_rows() : PlaceOfV::of_columns();
  }
  __device__ __forceinline__ PlaceOfV place_of_v() const {
    return PlaceOfV(kSameReads ? reads_.get(thread_).k : reads_.get(thread_).v);
  }

  /// The one of the arrays that a key block has.
  template <class Array>
  __device__ __forceinline__ std::uint32_t buffer_of(const Array (&arrays)[Tiles::kConstants],
                                                     const KeyBlock& block) const {
    return address(arrays) + static_cast<std::uint32_t>(buffer_number(block)) * sizeof(Array);
  }

  using CopyK = RowCopy<Tiles::kQkRow, kTile.computed, kMostWarps / kParts>;
  using CopyV = RowCopy<Tiles::kVRow, Tiles::kByKeys ? kTile.computed : kTile.head_dim, kMostWarps / kParts>;
  using CopyPlaces = mma::CopyPlaces<Tiles::kByKeys>;
  /// first_slot: of the sequence's key blocks.
  __device__ __forceinline__ CopyPlaces copy_places(const HeadOperand& k, const HeadOperand& v,
                                                    std::int32_t first_slot) const {
    CopyPlaces places{CopyK::place(), CopyV::place(), key_rows(k, first_slot)};
    if constexpr (Tiles::kByKeys) places.v_rows = value_rows(v, first_slot);
    return places;
  }
  /// Where the thread's rows of K of block 0 lie: packed, or as they were given.
  __device__ __forceinline__ const std::byte* key_rows(const HeadOperand& k, std::int32_t first_slot) const {
    constexpr int kBytes = Element<S::kQk>::kBytes;
    const std::byte* const first =
        call_.packed.k ? call_.packed.k + first_slot * call_.k_block_bytes
                       : static_cast<const std::byte*>(call_.k.codes.data) + k.offset(0, 0) * kBytes;
    return tile::kept(first + CopyK::offset(call_.k_row_bytes));
  }
  /// The same of V whose rows are keys.
  __device__ __forceinline__ const std::byte* value_rows(const HeadOperand& v,
                                                         std::int32_t first_slot) const {
    constexpr int kBytes = Element<S::kV>::kBytes;
    const std::byte* const first =
        call_.packed.v ? call_.packed.v + first_slot * call_.v_block_bytes
                       : static_cast<const std::byte*>(call_.v.codes.data) + v.offset(0, 0) * kBytes;
    return tile::kept(first + CopyV::offset(call_.v_row_bytes));
  }

  /// Rows of Q of which a lane copies a part, where they can be copied: what it has of them, and where it
  /// goes.
  struct QueryRows {
    static constexpr int kChunks = Tiles::kQkRow / 16, kTogether = std::min(kChunks, 4);
    static constexpr int kRowsATurn = 32 / kTogether;
    static constexpr int kTurns = kRowsAWarp / kRowsATurn / kParts;
    static_assert(kTurns > 0, "each part copies some of the rows");
    const std::byte* from[kTurns];
    std::uint32_t to[kTurns];
    int dim[kTurns];  ///< channels that there are; 0: no such row
  };
  /// count: of rows in the sequence.
  __device__ __forceinline__ QueryRows query_rows_of(const Queries& q, std::int32_t begin,
                                                     std::int32_t count) const {
    constexpr int kElements = 16 / Element<S::kQk>::kBytes;
    const DeviceOperand& x = q.operand();
    const int lane = static_cast<int>(threadIdx.x % 32), chunk = lane % QueryRows::kTogether;
    QueryRows rows;
    q.visit([&](const auto& rows_of_q) {
#pragma unroll
      for (int turn = 0; turn < QueryRows::kTurns; ++turn) {
        const int row = first_row_of_warp() + (turn * kParts + Threads::part()) * QueryRows::kRowsATurn +
                        lane / QueryRows::kTogether;
        const std::int32_t number = begin + row;
        rows.from[turn] =
            tile::kept(static_cast<const std::byte*>(x.codes.data) +
                       rows_of_q.offset(min(number, count - 1), chunk * kElements) * Element<S::kQk>::kBytes);
        rows.to[turn] = tile::kept(address(shared_.tiles.q) + tile::chunk_offset<Tiles::kQkRow>(row, chunk));
        rows.dim[turn] = number < count ? x.dim - chunk * kElements : 0;
      }
    });
    return rows;
  }

  /// Rows of Q on their way into shared memory, each warp its own, padded by zeros; rows beyond the sequence
  /// are zeros. buffer: from the first byte of Q's tile to where the block of threads' rows lie.
  __device__ __forceinline__ void load_q(const Queries& q, const QueryRows& rows, std::int32_t begin,
                                         std::int32_t count, std::uint32_t buffer = 0) {
    constexpr int kElements = 16 / Element<S::kQk>::kBytes, kChunks = QueryRows::kChunks;
    const DeviceOperand& x = q.operand();
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (call_.q_in_chunks) [[likely]] {
#pragma unroll
      for (int turn = 0; turn < QueryRows::kTurns; ++turn) {
#pragma unroll
        for (int c = 0; c < kChunks; c += QueryRows::kTogether)
          ptx::copy_async_or_zeros((rows.to[turn] + buffer) ^ (c * 16), rows.from[turn] + c * 16,
                                   c * kElements < rows.dim[turn] ? 16 : 0);
      }
      return;
    }
#pragma unroll 1
    for (int i = Threads::part() * 32 + lane; i < kRowsAWarp * kChunks; i += 32 * kParts) {
      const int row = first_row_of_warp() + i / kChunks, chunk = i % kChunks;
      const std::int32_t number = begin + row, first = chunk * kElements;
      Elements<S::kQk, 16> element{};
#pragma unroll 1
      for (int c = 0; c < kElements && first + c < x.dim && number < count; ++c)
        element.of[c] = q.template element<S::kQk>(number, first + c);
      *reinterpret_cast<uint4*>(shared_.tiles.q + buffer + tile::chunk_offset<Tiles::kQkRow>(row, chunk)) =
          __builtin_bit_cast(uint4, element);
    }
  }

  /// Where a key block's rows of V lie, the thread's.
  __device__ __forceinline__ const std::byte* rows_of_v(const CopyPlaces& places,
                                                        const KeyBlock& block) const {
    if constexpr (Tiles::kByKeys)
      return places.v_rows + block.number * call_.v_block_bytes;
    else
      return call_.packed.v + std::int64_t{block.slot} * kTile.head_dim * Tiles::kVRow +
             CopyV::offset(Tiles::kVRow);
  }
  __device__ __forceinline__ void load_block(const CopyPlaces& places, const KeyBlock& block) {
    load_k(places, block, places.k_rows + block.number * call_.k_block_bytes);
    load_v(places, block, rows_of_v(places, block));
  }
  /// from: where the block's rows lie.
  __device__ __forceinline__ void load_k(const CopyPlaces& places, const KeyBlock& block,
                                         const std::byte* from) {
    CopyK::copy(address_of_k(block) + places.k, from, call_.k_row_bytes, block.keys);
    using Keys = typename Tiles::Keys;
    if constexpr (Keys::kBytes > 0)
      copy_bytes<Keys::kBytes>(buffer_of(shared_.tiles.keys, block),
                               call_.packed.keys + std::int64_t{block.slot} * Keys::kBytes);
  }

  __device__ __forceinline__ void load_v(const CopyPlaces& places, const KeyBlock& block,
                                         const std::byte* from) {
    const std::uint32_t to = address_of_v(block) + (kSameRows ? places.k : places.v);
    // Keys that are not there weigh 0, and 0 times what may lie there, NaN, is NaN: zeros do.
    if constexpr (Tiles::kByKeys)
      CopyV::template copy<Behind::zeros>(to, from, call_.v_row_bytes, block.keys);
    else
      CopyV::copy(to, from, Tiles::kVRow, kTile.head_dim);
    if constexpr (!std::is_empty_v<typename S::Channel>) {
      constexpr int kBytes = kTile.head_dim * static_cast<int>(sizeof(typename S::Channel));
      if (call_.packed.channels) [[unlikely]]
        copy_bytes<kBytes>(buffer_of(shared_.tiles.channels, block),
                           call_.packed.channels + std::int64_t{block.slot} * kBytes);
    }
  }

  /// Of two parts, the second one's halves of rows change places: what a lane ends lies first.
  static __device__ __forceinline__ int flipped_rows() { return 8 * Threads::part(); }
  static __device__ __forceinline__ int first_row_of_warp() {
    return static_cast<int>(threadIdx.x / 32) * kRowsAWarp;
  }

  const Call& call_;
  Shared& shared_;
  // 1, 2 or 4 warps: half of them is the logarithm.
  static_assert(kMostWarps == 4, "the logarithm of 8 is not half of it");
  const Divider rows_a_block_;
  const std::uint32_t address_;  ///< of what is shared
  const int thread_;             ///< its number in the block of threads
  typename Shared::Copies copies_;
  typename Shared::Reads reads_;
};

}  // namespace octet::cuda::mma
