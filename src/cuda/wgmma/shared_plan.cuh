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
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/tile/kept.cuh"
#include "cuda/tile/lines.cuh"
#include "cuda/wgmma/early_weights.cuh"
#include "cuda/wgmma/row_outputs.cuh"
#include "cuda/wgmma/row_tile.cuh"
#include "cuda/wgmma/tile.h"
#include "cuda/wgmma/tracked_weights.cuh"

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

/// The more warpgroups, the more of each other's softmax they hide: as many as registers hold.
/// (docs/cuda-measurements.md)
template <class S>
constexpr Tile tile_of(int index) {
  const std::int32_t dim = kHeadDims[index];
  // Four where rows need little beside scores and outputs: no constant of keys, or one and no rescaling
  // apart.
  constexpr int kBeside = kKeyWords<S> + (requires { S::kAddsAsTheyAre; } ? 0 : 1);
  constexpr bool kLeavesRegisters = kBeside <= 1 && Element<S::kV>::kBytes == 1;
  return {dim, dim > 128 ? 2 : dim == 64 && kLeavesRegisters ? 4 : 3};
}

/// Registers of a thread that copies and of one that multiplies, in the steps of setmaxnreg. Together those
/// that a block of threads begins with, for setmaxnreg deals out no others: of 640 threads 96 each, of 512
/// 128, of 384 168.
struct Registers {
  int copying, multiplying;
};
constexpr Registers registers_of(const Tile& tile) {
  if (tile.warpgroups == 4) return {32, 112};
  if (tile.warpgroups == 3) return {32, 160};
  return {40, 232};
}

/// Tiles of eight channels whose outputs registers hold from key block to key block. Those of the others are
/// in shared memory while weights are made: so many as let the compiler spill next to nothing, which it does
/// where a row's outputs are in its way. As measured: five where three or four were enough cost 10 %.
/// (docs/cuda-measurements.md)
template <class S>
constexpr int kept_tiles(const Tile& tile) {
  constexpr bool kOfBytes = Element<S::kV>::kBytes == 1, kAdds = requires { S::kAddsAsTheyAre; };
  constexpr bool kE4m3 = S::kP == Operand::e4m3;
  int parked = 0;
  if (tile.warpgroups == 4)
    parked = kAdds ? 4 : 5;
  else if (tile.head_dim == 128)
    parked = kOfBytes ? (kKeyWords<S> == 3 ? 3 : kAdds ? (kE4m3 ? 3 : 1) : 4) : kAdds ? 2 : 4;
  else if (kE4m3 && kKeyWords<S> == 0)
    parked = 4;
  return tile.head_dim / 8 - parked;
}

/// Tiles of channels of P V at a time. More leave less between the products, and more numbers beside the
/// weights: of bytes they gain 6 to 8 % at 256 channels, at 128 where keys have three constants.
/// (docs/cuda-measurements.md)
template <class S>
constexpr int tiles_at_once(const Tile& tile) {
  const bool gains = tile.head_dim == 256 || (tile.head_dim == 128 && kKeyWords<S> == 3);
  return Element<S::kV>::kBytes == 1 && gains ? 16 : 8;
}

/// Whether as many blocks of threads as there are processors go from tile to tile of rows, where all rows see
/// as many keys: 4 to 10 % where four warpgroups multiply, and a loss of up to 5 where three do.
/// (docs/cuda-measurements.md)
constexpr bool shares_out(const Tile& tile) { return tile.warpgroups == 4; }

/// What is done with rows that see no key of a block: where a choice for them costs what it shows, none is
/// made.
template <class S>
constexpr Blind blind_rows(const Tile& tile) {
  constexpr bool kHasStep =
      requires(const S& s, typename S::State state, typename S::Score peak, typename S::View view) {
    s.blind_step(state, peak, view);
  };
  const bool gains = tile.head_dim <= 128 && (kKeyWords<S> == 3 || tile.warpgroups == 4);
  return kHasStep && gains ? Blind::adds_nothing : Blind::is_left_out;
}

/// How weights are made of scores whose block's largest is known: as measured, 2 to 4 % of int8_full and of
/// int8 at 128 channels, 2 to 5 of int8_channel there, which spills by 32 keys. (docs/cuda-measurements.md)
template <class S>
constexpr Pace pace_of(const Tile& tile) {
  constexpr bool kAdds = requires { S::kAddsAsTheyAre; };
  if (S::kP != Operand::u8) return Pace::free;
  if (kAdds || (tile.head_dim == 128 && WeighsEarly<S>)) return Pace::by_32_keys;
  return tile.head_dim == 128 && kKeyWords<S> == 1 ? Pace::by_halves : Pace::free;
}

/// Whether weights do not wait for a block's largest score, and Q K^T of the next block is under way while
/// sums of P V are folded: where registers hold scores, sums and outputs beside each other.
/// (docs/cuda-measurements.md)
template <class S>
constexpr bool weighs_early(const Tile& tile) {
  return WeighsEarly<S> && tile.head_dim == 64;
}

/// Whether weights ask for no largest score at all, and P V is added to the outputs as it is made: where one
/// product has all channels. (docs/cuda-measurements.md)
template <class S>
constexpr bool tracks_weights(const Tile& tile) {
  return TracksWeights<S> && tile.head_dim == 64;
}

/// Whether rows' constants lie in shared memory from key block to key block: where the compiler else spills
/// one of them, in the one kernel that has no other way out that costs less. (docs/cuda-measurements.md)
template <class S>
constexpr bool parks_rows(const Tile& tile) {
  constexpr bool kAdds = requires { S::kAddsAsTheyAre; };
  return tile.head_dim == 128 && kKeyWords<S> == 1 && Element<S::kV>::kBytes == 1 && !kAdds;
}

/// Whether keys may be cut into ranges (cuda/ranges.h). Where tiles are shared out their last ones leave less
/// to be won, and two kernels have no register for it. (docs/cuda-measurements.md)
template <class S>
constexpr bool may_have_ranges(const Tile& tile) {
  return MergesRanges<S> && !shares_out(tile);
}

/// Tiles of a scheme's operands.
template <class S, Tile kTile>
struct OperandTiles {
  static constexpr int kQkRow = kTile.head_dim * Element<S::kQk>::kBytes;  // bytes
  static constexpr bool kByKeys = kValuesByKeys<S>;
  static constexpr int kVRow = (kByKeys ? kTile.head_dim : kKeys) * Element<S::kV>::kBytes;
  static constexpr int kRowsOfV = kByKeys ? kKeys : kTile.head_dim;
  using Q = tile::Lines<kQkRow, kRowsAWarpgroup>;
  using K = tile::Lines<kQkRow, kKeys>;
  using V = std::conditional_t<kByKeys, tile::TurnedLines<kVRow, kRowsOfV>, tile::Lines<kVRow, kRowsOfV>>;
  using Keys = KeyArrays<typename S::Key, kKeys>;

  struct Buffer {
    alignas(1024) std::byte k[kKeys * kQkRow];
    alignas(1024) std::byte v[kRowsOfV * kVRow];
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

/// How often a tile of rows is computed: once more without early weights where these failed.
enum class Pass : std::int32_t { first, first_failed, second };

template <class S, Tile kTile>
struct SharedPlan {
  using Tiles = OperandTiles<S, kTile>;
  using Outputs = RowOutputs<S, kTile.head_dim / 8, kept_tiles<S>(kTile), tiles_at_once<S>(kTile)>;
  static constexpr int kRows = kTile.warpgroups * kRowsAWarpgroup;
  static constexpr int kWarps = kRows / kRowsAWarp;  ///< that multiply
  static constexpr int kOfOutputs = std::is_empty_v<typename Outputs::Shared>
                                        ? 0
                                        : kWarps * static_cast<int>(sizeof(typename Outputs::Shared));
  /// Whether a block of threads goes from tile to tile of rows: rows on their way out then have a place of
  /// their own, and key blocks of the next tile come while rows of this one end.
  static constexpr bool kSharesOut = shares_out(kTile);
  using Staged = StagedRow<kTile.head_dim>[kRows];
  static constexpr int kOfStaged = kSharesOut ? static_cast<int>(sizeof(Staged)) : 0;
  /// So many buffers as fit beside the rest, up to four.
  static constexpr int kRoom = kSharedBytes - kRows * Tiles::kQkRow - kOfOutputs - kOfStaged -
                               8 * 1024;  // constants of ends, barriers and what is aligned: 8 KiB
  static constexpr int kOfBuffer =
      static_cast<int>(sizeof(typename Tiles::Buffer) + sizeof(typename Tiles::Constants));
  static constexpr int kStages = std::clamp(kRoom / kOfBuffer, 1, 4);

  union {
    struct {
      typename Tiles::Buffer buffers[kStages];
      alignas(1024) std::byte q[kTile.warpgroups][kRowsAWarpgroup * Tiles::kQkRow];
    } tiles;
    std::conditional_t<kSharesOut, char, Staged> outputs_over_tiles;
  };
  std::conditional_t<kSharesOut, Staged, char> outputs_beside_tiles;
  __device__ __forceinline__ StagedRow<kTile.head_dim>* outputs() {
    if constexpr (kSharesOut)
      return outputs_beside_tiles;
    else
      return outputs_over_tiles;
  }
  typename Tiles::Constants constants[kStages];
  typename S::Channel channels[kSharesOut ? kTile.warpgroups : 1]
                              [kTile.head_dim];  ///< constants of rows' ends
  typename Outputs::Shared of_outputs[kWarps];
  static constexpr bool kParksRows = parks_rows<S>(kTile);
  struct alignas(8) RowsOfLane {
    typename S::Row of[kRowsALane];
  };
  RowsOfLane rows[kParksRows ? kWarps * 32 : 1];
  static constexpr bool kWeighsEarly = weighs_early<S>(kTile), kTracks = tracks_weights<S>(kTile);
  /// Whether the tile of rows is there until rows end, where registers are few.
  static constexpr bool kParksTile = kWeighsEarly;
  static_assert(!kParksTile || !kSharesOut, "a warp has one tile");
  using Early = EarlyWeights<S, kKeys / 8, kKeys>;
  typename Early::template Shared<kWeighsEarly ? kWarps * 32 : 1> early_rows;
  Pass pass;  ///< of the tile; whether there is another, once `is_told` says that it is known
  std::uint64_t is_told;
  std::int32_t tile_of_warp[kWarps];  ///< that it is at, where it goes from one to the next
  RowTile row_tile_of_warp[kParksTile ? kWarps : 1];
  /// Of a buffer, or of its K and its V apart where there is one: K of the next key block comes while V is
  /// multiplied.
  static constexpr int kSets = kStages > 1 ? 1 : 2;
  Barriers barriers[kStages][kSets];
};

/// Where the parts of a plan lie in shared memory. note: from offsets; differences of pointers cost a
/// register.
template <class S, Tile kTile>
class SharedAddresses {
  using Plan = SharedPlan<S, kTile>;
  using Tiles = typename Plan::Tiles;

 public:
  __device__ __forceinline__ explicit SharedAddresses(const Plan& plan)
      : plan_(tile::of_warp(ptx::shared_address(&plan))) {}
  __device__ __forceinline__ std::uint32_t q(int warpgroup) const {
    return plan_ + offsetof(Plan, tiles.q) + warpgroup * sizeof(Plan::tiles.q[0]);
  }
  __device__ __forceinline__ std::uint32_t k(int stage) const {
    return buffer(stage) + offsetof(typename Tiles::Buffer, k);
  }
  __device__ __forceinline__ std::uint32_t v(int stage) const {
    return buffer(stage) + offsetof(typename Tiles::Buffer, v);
  }
  /// Constants of a key block: of its keys, its channels, its own.
  __device__ __forceinline__ std::uint32_t keys(int stage) const {
    return constants(stage) + offsetof(typename Tiles::Constants, keys);
  }
  __device__ __forceinline__ std::uint32_t channels(int stage) const {
    return constants(stage) + offsetof(typename Tiles::Constants, channels);
  }
  __device__ __forceinline__ std::uint32_t block(int stage) const {
    return constants(stage) + offsetof(typename Tiles::Constants, block);
  }
  __device__ __forceinline__ std::uint32_t is_copied(int stage, int set) const {
    return barriers(stage, set) + offsetof(Barriers, is_copied);
  }
  __device__ __forceinline__ std::uint32_t is_full(int stage, int set) const {
    return barriers(stage, set) + offsetof(Barriers, is_full);
  }
  __device__ __forceinline__ std::uint32_t is_free(int stage, int set) const {
    return barriers(stage, set) + offsetof(Barriers, is_free);
  }
  __device__ __forceinline__ std::uint32_t is_told() const { return plan_ + offsetof(Plan, is_told); }

 private:
  __device__ __forceinline__ std::uint32_t buffer(int stage) const {
    return plan_ + offsetof(Plan, tiles.buffers) + stage * sizeof(typename Tiles::Buffer);
  }
  __device__ __forceinline__ std::uint32_t constants(int stage) const {
    return plan_ + offsetof(Plan, constants) + stage * sizeof(typename Tiles::Constants);
  }
  __device__ __forceinline__ std::uint32_t barriers(int stage, int set) const {
    return plan_ + offsetof(Plan, barriers) + (stage * Plan::kSets + set) * sizeof(Barriers);
  }

  std::uint32_t plan_;
};

}  // namespace octet::cuda::wgmma
