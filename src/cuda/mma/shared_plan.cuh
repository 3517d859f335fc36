// Shared memory of the attention kernel's blocks of threads.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/hd.h"
#include "cuda/attn/epilogue.cuh"
#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/key_block.cuh"
#include "cuda/attn/key_parts.cuh"
#include "cuda/attn/lone_block.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/outputs.cuh"
#include "cuda/mma/parked.cuh"
#include "cuda/mma/tile.h"

namespace octet::cuda::mma {

using namespace attn;

/// What a block of threads holds of the operands; q is last, of which fewer warps need less.
template <class S, Tile kTile>
struct SharedTiles {
  static constexpr int kQkRow = kTile.head_dim * Element<S::kQk>::kBytes;  // bytes
  static constexpr bool kByKeys = kValuesByKeys<S>;
  static constexpr int kVRow = (kByKeys ? kTile.head_dim : kTile.keys) * Element<S::kV>::kBytes;
  static constexpr int kBlockBytes = kTile.keys * (kQkRow + kTile.head_dim * Element<S::kV>::kBytes);
  /// Two buffers, unless a block of threads would then have a processor of 99 KiB (sm_86) to itself or not
  /// fit at all; sums of long rows lie beside them, as much again.
  static constexpr int kMostBytes = (LongRows<S> ? 36 : 72) * 1024;
  static constexpr int kBuffers = 2 * kBlockBytes <= kMostBytes ? 2 : 1;
  static constexpr bool kKeepsKeys = kTile.kept_blocks > 0;
  static constexpr int kKept = kept_blocks(kTile, Element<S::kV>::kBytes);
  static constexpr int kStages = kKeepsKeys ? kKept : kBuffers, kConstants = kKeepsKeys ? kKept : 2;
  static constexpr int kRowsOfK = kKeepsKeys ? kTile.computed : kTile.keys,
                       kRowsOfV = kByKeys ? kRowsOfK : kTile.head_dim;
  using Keys = KeyArrays<typename S::Key, kTile.keys>;
  alignas(512) std::byte k[kStages][kRowsOfK * kQkRow];
  alignas(512) std::byte v[kStages][kRowsOfV * kVRow];
  alignas(16) std::uint32_t keys[kConstants][std::max(Keys::kBytes / 4, 4)];
  alignas(16) typename S::Channel channels[kConstants][kTile.head_dim];  ///< of key blocks
  /// Of a warp: its rows of Q. Where keys stay, those of the next tile come while one is computed, and rows
  /// leave from the place of their own and what lies between the two.
  static constexpr int kRowsOfQ = kRowsAWarp * kQkRow,
                       kRowsOut = kRowsAWarp * sizeof(StagedRow<kTile.head_dim>);
  /// Where a tile of rows has several warps, their scales, and what each warp leaves for others.
  static constexpr int kOfParts =
      kRowsAWarp * static_cast<int>(sizeof(float)) + kTile.key_parts * kRowsOut / 2;
  static constexpr int kOfWarp =
      !kKeepsKeys ? kRowsOfQ : kRowsOfQ + (kTile.key_parts > 1 ? kOfParts : kRowsOut);
  alignas(512) std::byte q[kMostWarps * kOfWarp];
};

/// What warps keep of their outputs, and what they leave for each other.
template <class S, Tile kTile>
struct PartsOfTile {
  using Sums = typename Outputs<S, kTile.head_dim / 8>::Shared;
  using Parts = PartsOfRows<S, kTile.head_dim / 8, kTile.key_parts>;
};
template <class S, Tile kTile>
requires(kTile.key_parts > 1 && kTile.kept_blocks > 0) struct PartsOfTile<S, kTile> {
  using Sums = typename Outputs<S, kTile.head_dim / 8>::Shared;
  struct Parts {};  // they lie beside rows of Q
};
template <class S, Tile kTile>
requires(kTile.lone_blocks > 0) struct PartsOfTile<S, kTile> {
  struct Sums {};
  using Parts = LoneParts<S, kTile.head_dim, kTile.key_parts>;
};

/// Where places of threads are: parked by kernels of 8-bit Q and K with 128 keys and up to 64 channels, or
/// more of e4m3. Not by those without constants of keys that have registers left: of parts of the keys, or of
/// V in 16 bits.
template <class S>
constexpr Keeps keeps_places(const Tile& tile) {
  constexpr bool kHasKeys = !std::is_empty_v<typename S::Key>, kBytes = Element<S::kV>::kBytes == 1;
  constexpr bool kE4m3 = S::kQk == Operand::e4m3 && S::kV == Operand::e4m3;
  const bool parks = tile.keys > 64 && (tile.head_dim <= 64 || kE4m3) && tile.lone_blocks == 0 &&
                     tile.kept_blocks == 0 && Element<S::kQk>::kBytes == 1 &&
                     (kHasKeys || (kBytes && tile.key_parts == 1));
  return parks ? Keeps::in_shared_memory : Keeps::in_registers;
}
/// Where what warps know is: parked by the same, by those without constants of keys that run three or four
/// blocks of threads a processor, by parts of the keys of 16 bits, and by 256 channels of e4m3 against V of
/// 16 bits or of weights from a table.
template <class S>
constexpr Keeps keeps_known(const Tile& tile) {
  constexpr bool kBytes = Element<S::kV>::kBytes == 1;
  const bool dense = std::is_empty_v<typename S::Key> && tile.lone_blocks == 0 && tile.kept_blocks == 0 &&
                     tile.key_parts == 1;
  const bool many =
      kBytes ? tile.head_dim == 64 || tile.head_dim == 128 : tile.head_dim == 64 && tile.keys > 64;
  const bool halves = tile.key_parts > 1 && Element<S::kQk>::kBytes == 2;
  constexpr bool kHasTable = requires { &S::fill_table; };
  const bool wide = tile.head_dim > 128 && ((S::kQk == Operand::e4m3 && !kBytes) || kHasTable);
  return (dense && many) || halves || wide ? Keeps::in_shared_memory : keeps_places<S>(tile);
}

/// Shared memory of a block of threads: the operands' tiles, and the rows on their way out after them; behind
/// them what warps keep of their outputs, if anything, or what parts of the keys leave for each other.
template <class S, Tile kTile>
struct SharedPlan {
  using Sums = typename PartsOfTile<S, kTile>::Sums;
  /// Constants of rows, and what they keep from key block to key block, are parked where four blocks of
  /// threads share a processor's registers, of e4m3 where more than 64 channels do.
  static constexpr bool kParksRows =
      std::is_empty_v<typename S::Key> && (S::kV != Operand::e4m3 || kTile.head_dim > 64);
  static constexpr Keeps kKeepsPlaces = keeps_places<S>(kTile), kKeepsKnown = keeps_known<S>(kTile),
                         kKeepsRows = kParksRows ? kKeepsPlaces : Keeps::in_registers;
  struct RowsOfLane {
    typename S::Row of[kRowsALane];
  };
  struct alignas(16) StatesOfLane {
    typename S::State of[kRowsALane];
  };
  using Copies = Parked<CopyPlaces<kValuesByKeys<S>>, kKeepsPlaces, kMostWarps * 32>;
  using Reads = Parked<ReadPlaces, kKeepsPlaces, kMostWarps * 32>;
  using RowsByThread = Parked<RowsOfLane, kKeepsRows, kMostWarps * 32>;
  using StatesByThread = Parked<StatesOfLane, kKeepsRows, kMostWarps * 32>;
  using KnownByWarp = Parked<Known, kKeepsKnown, kMostWarps>;

  typename S::Channel channels[kTile.head_dim];  ///< constants of rows' ends
  [[no_unique_address]] typename Copies::Shared copies;
  [[no_unique_address]] typename Reads::Shared reads;
  [[no_unique_address]] typename RowsByThread::Shared rows;
  [[no_unique_address]] typename StatesByThread::Shared states;
  [[no_unique_address]] typename KnownByWarp::Shared known;
  union {
    SharedTiles<S, kTile> tiles;
    StagedRow<kTile.head_dim> outputs[kMostWarps * kRowsAWarp];
  };

  static OCTET_HD std::uint32_t bytes_before_sums(std::uint32_t warps) {
    const std::uint32_t operands = sizeof(tiles) - (kMostWarps - warps) * SharedTiles<S, kTile>::kOfWarp;
    const std::uint32_t rows = warps * kRowsAWarp * sizeof(outputs[0]);
    return offsetof(SharedPlan, tiles) + (operands > rows ? operands : rows);
  }
  using Parts = typename PartsOfTile<S, kTile>::Parts;
  static std::size_t bytes(int warps) {
    constexpr std::size_t kOfWarp =
        (std::is_empty_v<Sums> ? 0 : sizeof(Sums)) + (std::is_empty_v<Parts> ? 0 : sizeof(Parts));
    return bytes_before_sums(static_cast<std::uint32_t>(warps)) + static_cast<std::size_t>(warps) * kOfWarp;
  }
  __device__ __forceinline__ Sums& sums(std::uint32_t warps, std::uint32_t warp) {
    return of_warp<Sums>(warps, warp);
  }
  /// What the warps of a row leave, of which `warp` is the number among those of other rows.
  __device__ __forceinline__ Parts& parts(std::uint32_t warps, std::uint32_t warp) {
    return of_warp<Parts>(warps, warp);
  }

 private:
  static_assert(std::is_empty_v<Sums> || std::is_empty_v<Parts>, "one of them stands behind the tiles");
  template <class T>
  __device__ __forceinline__ T& of_warp(std::uint32_t warps, std::uint32_t warp) {
    static_assert(sizeof(tiles) % alignof(T) == 0 && SharedTiles<S, kTile>::kOfWarp % alignof(T) == 0 &&
                      sizeof(outputs[0]) % alignof(T) == 0,
                  "what stands before leaves it aligned");
    return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(this) + bytes_before_sums(warps))[warp];
  }
};

}  // namespace octet::cuda::mma
