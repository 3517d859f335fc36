// Shared memory of the Hopper kernel's blocks of threads: rings of buffers for K and V, and barriers for
// each.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/attn/epilogue.cuh"
#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/tile/lines.cuh"
#include "cuda/wgmma/row_outputs.cuh"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

using namespace attn;

/// head_dim: as in kHeadDims. warpgroups: that multiply, each 64 query rows against the same keys; one more
/// copies.
struct Tile {
  std::int32_t head_dim, warpgroups;
};

/// Words of constants that each key has.
template <class S>
inline constexpr int kKeyWords = KeyArrays<typename S::Key, kKeys>::kWords;

/// The more warpgroups, the more of each other's softmax they hide: as many as registers hold. (docs/cuda.md)
template <class S>
constexpr Tile tile_of(int index) {
  const std::int32_t dim = kHeadDims[index];
  // Four where rows need little beside scores and outputs: no constant of keys, or one and no rescaling
  // apart.
  constexpr int kBeside = kKeyWords<S> + (requires { S::kAddsAsTheyAre; } ? 0 : 1);
  constexpr bool kLeavesRegisters = kBeside <= 1 && Element<S::kV>::kBytes == 1;
  return {dim, dim > 128 ? 2 : dim == 64 && kLeavesRegisters ? 4 : 3};
}

/// Registers of a thread that copies and of one that multiplies, in the steps of setmaxnreg.
struct Registers {
  int copying, multiplying;
};
/// Together those that a block of threads begins with, for setmaxnreg deals out no others: of 640 threads 96
/// each, of 512 128, of 384 168. What those who multiply do not need spares those who copy spills.
template <class S>
constexpr Registers registers_of(const Tile& tile) {
  constexpr bool kOfBytes = Element<S::kV>::kBytes == 1;
  if (tile.warpgroups == 4) return {32, 112};
  // As measured, not as derived: what the compiler spills follows no rule. (docs/cuda.md)
  if (tile.warpgroups == 3)
    return kOfBytes && kKeyWords<S> == (tile.head_dim == 64 ? 1 : 3) ? Registers{32, 160}
                                                                     : Registers{56, 152};
  return kOfBytes && kKeyWords<S> > 0 ? Registers{40, 232} : Registers{56, 224};
}

/// Tiles of a scheme's operands.
template <class S, Tile kTile>
struct OperandTiles {
  static constexpr int kQkRow = kTile.head_dim * Element<S::kQk>::kBytes;  // bytes
  static constexpr int kVRow = kKeys * Element<S::kV>::kBytes;
  using Q = tile::Lines<kQkRow, kRowsAWarpgroup>;
  using K = tile::Lines<kQkRow, kKeys>;
  using V = tile::Lines<kVRow, kTile.head_dim>;
  using Keys = KeyArrays<typename S::Key, kKeys>;

  struct Buffer {
    alignas(1024) std::byte k[kKeys * kQkRow];
    alignas(1024) std::byte v[kTile.head_dim * kVRow];
  };
  /// Constants of a key block, and of its channels.
  struct Constants {
    alignas(16) std::uint32_t keys[std::max(Keys::kBytes / 4, 4)];
    alignas(16) typename S::Channel channels[kTile.head_dim];
    alignas(16) typename S::Block block;
  };
};

/// Barriers of a buffer: that copies into it are done, that the matrix units see them, and that nobody reads
/// it any more.
struct Barriers {
  std::uint64_t is_copied, is_full, is_free;
};

template <class S, Tile kTile>
struct SharedPlan {
  using Tiles = OperandTiles<S, kTile>;
  using Outputs = RowOutputs<S, kTile.head_dim / 8>;
  static constexpr int kRows = kTile.warpgroups * kRowsAWarpgroup;
  /// So many buffers as fit beside the rest, up to four.
  static constexpr int kRoom =
      kSharedBytes - kRows * Tiles::kQkRow - 8 * 1024;  // barriers and what is aligned: 8 KiB
  static constexpr int kOfBuffer =
      static_cast<int>(sizeof(typename Tiles::Buffer) + sizeof(typename Tiles::Constants));
  static constexpr int kStages = std::clamp(kRoom / kOfBuffer, 1, 4);

  union {
    struct {
      typename Tiles::Buffer buffers[kStages];
      alignas(1024) std::byte q[kTile.warpgroups][kRowsAWarpgroup * Tiles::kQkRow];
    } tiles;
    StagedRow<kTile.head_dim> outputs[kRows];
  };
  typename Tiles::Constants constants[kStages];
  typename S::Channel channels[kTile.head_dim];  ///< constants of rows' ends
  typename Outputs::Shared of_outputs;
  /// Of a buffer, or of its K and its V apart where there is one: K of the next key block comes while V is
  /// multiplied.
  static constexpr int kSets = kStages > 1 ? 1 : 2;
  Barriers barriers[kStages][kSets];
};

}  // namespace octet::cuda::wgmma
