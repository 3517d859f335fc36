// The warpgroup that copies: K, V and constants of one key block after the other into the ring of buffers,
// and word of each to those who multiply. It lives on few registers, for each that it has all of them lack.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/key_block.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/ptx/cp_async.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/warpgroup.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/wgmma/shared_plan.cuh"

namespace octet::cuda::wgmma {

/// A place in a ring of buffers, and the parity of the phase that its barriers are in.
template <int kStages>
struct Place {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

/// Threads that copy. Another one waits for what they copied and shows it to the matrix units: who copies
/// would wait for all that it has under way, and who multiplies has no time to.
inline constexpr int kCopying = 64;

/// Rows of a tile on their way into shared memory, by all threads that copy.
template <int kRowBytes, int kTileRows>
struct RowCopy {
  using Lines = tile::Lines<kRowBytes, kTileRows>;
  static constexpr int kChunks = Lines::kLine / 16, kRowsATurn = kCopying / kChunks,
                       kTurns = kTileRows / kRowsATurn;
  // Eight rows or more a turn, after which the places of chunks repeat.
  static_assert(kRowsATurn % 8 == 0 && kTileRows % kRowsATurn == 0, "a turn is a step of all places");

  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.x) / kChunks; }
  static __device__ __forceinline__ int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }
  /// From the first row in global memory, and from the tile's begin, to the thread's first chunk.
  static __device__ __forceinline__ std::int64_t offset(std::int64_t row_bytes) {
    return row() * row_bytes + chunk() * 16;
  }
  static __device__ __forceinline__ std::uint32_t place() { return Lines::offset(row(), chunk()); }

  /// rows: that there are. to, from: the thread's own.
  static __device__ __forceinline__ void copy(std::uint32_t to, const std::byte* from, std::int64_t row_bytes,
                                              std::int32_t rows) {
    const std::int32_t left = rows - row();
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      if (turn * kRowsATurn < left) copy_row(to + turn * kRowsATurn * Lines::kLine, from);
      // note: one address from turn to turn; the compiler would have one of each.
      from = tile::kept(from + kRowsATurn * row_bytes);
    }
  }
  /// The same, with zeros behind them.
  static __device__ __forceinline__ void copy_or_zeros(std::uint32_t to, const std::byte* from,
                                                       std::int64_t row_bytes, std::int32_t rows) {
    const std::int32_t left = rows - row();
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int bytes = turn * kRowsATurn < left ? 16 : 0;
#pragma unroll
      for (int line = 0; line < Lines::kOfRow; ++line)
        ptx::copy_async_or_zeros(to + turn * kRowsATurn * Lines::kLine + line * Lines::kLineBytes,
                                 from + line * Lines::kLine, bytes);
      from = tile::kept(from + kRowsATurn * row_bytes);
    }
  }
  /// All rows of a tile whose rows lie one after the other.
  static __device__ __forceinline__ void copy_tile(std::uint32_t to, const std::byte* from) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn)
      copy_row(to + turn * kRowsATurn * Lines::kLine, from + turn * kRowsATurn * kRowBytes);
  }

 private:
  static __device__ __forceinline__ void copy_row(std::uint32_t to, const std::byte* from) {
#pragma unroll
    for (int line = 0; line < Lines::kOfRow; ++line)
      ptx::copy_async(to + line * Lines::kLineBytes, from + line * Lines::kLine);
  }
};

template <class S, Tile kTile>
class Copies {
  using Shared = SharedPlan<S, kTile>;
  using Tiles = OperandTiles<S, kTile>;
  static constexpr int kStages = Shared::kStages, kSets = Shared::kSets;

 public:
  __device__ __forceinline__ Copies(const Call& call, const SharedAddresses<S, kTile>& shared)
      : call_(call), shared_(shared) {}

  /// By the thread that is no copying one. at: of the first key block, then behind the last.
  __device__ __forceinline__ void tell_of_blocks(const KeyBlocks& blocks, Place<kStages>& at) const {
#pragma unroll 1
    for (std::int32_t i = blocks.first; i < blocks.end; ++i) {
#pragma unroll
      for (int set = 0; set < kSets; ++set) {
        ptx::wait(shared_.is_copied(at.stage, set), at.parity);
        ptx::show_to_matrix_units();
        ptx::arrive(shared_.is_full(at.stage, set));
      }
      at.next();
    }
  }

  /// K and V of all key blocks, one after the other, each as soon as its buffer is free.
  __device__ __forceinline__ void copy_blocks(const HeadOperand& k, const HeadOperand& v,
                                              const KeyBlocks& blocks, Place<kStages>& at) const {
    using CopyK = RowCopy<Tiles::kQkRow, kKeys>;
    using CopyV = RowCopy<Tiles::kVRow, Tiles::kRowsOfV>;
    constexpr int kBytes = Element<S::kQk>::kBytes;
    const std::int64_t v_row = Tiles::kByKeys ? call_.v_row_bytes : Tiles::kVRow,
                       v_block = Tiles::kByKeys ? call_.v_block_bytes : Tiles::kRowsOfV * Tiles::kVRow;
    const std::byte* const k_rows =
        call_.packed.k ? call_.packed.k + blocks.first_slot * call_.k_block_bytes
                       : static_cast<const std::byte*>(call_.k.codes.data) + k.offset(0, 0) * kBytes;
    const std::byte* from_k =
        tile::kept(k_rows + blocks.first * call_.k_block_bytes + CopyK::offset(call_.k_row_bytes));
    // Of V the caller's rows are read where they are keys.
    const std::byte* const v_rows =
        !Tiles::kByKeys || call_.packed.v
            ? call_.packed.v + blocks.first_slot * v_block
            : static_cast<const std::byte*>(call_.v.codes.data) + v.offset(0, 0) * Element<S::kV>::kBytes;
    const std::byte* from_v = tile::kept(v_rows + blocks.first * v_block + CopyV::offset(v_row));
#pragma unroll 1
    for (std::int32_t i = blocks.first; i < blocks.end; ++i) {
      KeyBlock block = blocks.at(i);
      block.slot = tile::kept(block.slot);  // addresses of constants are made of it here, where few live
      ptx::wait(shared_.is_free(at.stage, 0), at.parity ^ 1);
      CopyK::copy(shared_.k(at.stage) + CopyK::place(), from_k, call_.k_row_bytes, block.keys);
      copy_constants_of_keys(block, at.stage);
      if constexpr (kSets > 1) {
        ptx::arrive_with_copies(shared_.is_copied(at.stage, 0));
        ptx::wait(shared_.is_free(at.stage, 1), at.parity ^ 1);
      }
      // Keys that are not there weigh 0, and 0 times what may lie there, NaN, is NaN: zeros do,
      // which packed rows have.
      if (Tiles::kByKeys && !call_.packed.v)
        CopyV::copy_or_zeros(shared_.v(at.stage) + CopyV::place(), from_v, v_row, block.keys);
      else
        CopyV::copy_tile(shared_.v(at.stage) + CopyV::place(), from_v);
      copy_constants_of_channels(block, at.stage);
      ptx::arrive_with_copies(shared_.is_copied(at.stage, kSets - 1));
      from_k += call_.k_block_bytes, from_v += v_block;
      at.next();
    }
  }

 private:
  __device__ __forceinline__ void copy_constants_of_keys(const KeyBlock& block, int stage) const {
    constexpr int kKeyBytes = Tiles::Keys::kBytes;
    if constexpr (kKeyBytes > 0)
      copy_bytes<kKeyBytes>(shared_.keys(stage), call_.packed.keys + std::int64_t{block.slot} * kKeyBytes);
    if constexpr (!std::is_empty_v<typename S::Block>) {
      constexpr int kBytes = sizeof(typename S::Block), kWord = 4;
      static_assert(kBytes % kWord == 0, "constants are words");
      if (const int at = static_cast<int>(threadIdx.x) * kWord; at < kBytes)
        ptx::copy_word_async(shared_.block(stage) + at,
                             call_.packed.blocks + std::int64_t{block.slot} * kBytes + at);
    }
  }
  __device__ __forceinline__ void copy_constants_of_channels(const KeyBlock& block, int stage) const {
    if constexpr (!std::is_empty_v<typename S::Channel>) {
      constexpr int kBytes = kTile.head_dim * static_cast<int>(sizeof(typename S::Channel));
      if (call_.packed.channels)
        copy_bytes<kBytes>(shared_.channels(stage),
                           call_.packed.channels + std::int64_t{block.slot} * kBytes);
    }
  }
  template <int kBytes>
  static __device__ __forceinline__ void copy_bytes(std::uint32_t to, const std::byte* from) {
    constexpr int kTurn = kCopying * 16;
    const int at = static_cast<int>(threadIdx.x) * 16;
#pragma unroll
    for (int turn = 0; turn < kBytes; turn += kTurn)
      if (turn + kTurn <= kBytes || at < kBytes - turn) ptx::copy_async(to + at + turn, from + at + turn);
  }

  const Call& call_;
  const SharedAddresses<S, kTile> shared_;
};

}  // namespace octet::cuda::wgmma
