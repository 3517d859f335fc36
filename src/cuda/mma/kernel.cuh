// The mma.sync family's kernels: of rows with any key blocks, with few that stay, and with one or two of
// their own.
#pragma once
#include <cstddef>
#include <type_traits>

#include "cuda/mma/attend.cuh"
#include "cuda/mma/attend_in_turn.cuh"
#include "cuda/mma/attend_lone.cuh"
#include "cuda/ptx/shared.cuh"

namespace octet::cuda::mma {

/// Blocks of threads that a processor's registers hold; the compiler gives each thread what that leaves it.
/// Measured on an H200, int8 without constants of keys: 4 x 32 x 4096 x 64 355 TOPS by four and 333 by three,
/// 1 x 16 x 16384 x 128 496 by three and 440 by two; f16 of 64 channels 198 by four and 235 by three. Long
/// rows spill beside a third block, and took 13 % longer (`integer`, 4 x 32 x 4096 x 64), but for those of
/// lone blocks, which keep no sums of 64 bits. qflash and its kin spilled 350 bytes beside a fourth block (64
/// channels) or a third (128), e4m3 and e5m2 in 16 bits about 100 beside a third: shared memory of an A100
/// holds two of those.
template <class S, Tile kTile>
constexpr int blocks_a_processor() {
  constexpr bool kLight = std::is_empty_v<typename S::Key> && Element<S::kV>::kBytes == 1;
  if (kTile.head_dim > 128) return 1;
  if (kTile.kept_blocks > 0) return 3;
  if (kTile.lone_blocks > kTile.key_parts) return 3;
  if (kTile.lone_blocks > 0) return kTile.head_dim <= 32 ? 5 : 4;
  constexpr bool kE4m3 = S::kQk == Operand::e4m3 || S::kV == Operand::e4m3;
  if (ptx::kUnpacksE4m3 && kE4m3) return kTile.head_dim > 64 ? 2 : 3;
  if (kTile.key_parts > 1) return 3;
  if (LongRows<S>) return 2;
  if (requires { S::kAsksOptions; } && kLight) return kTile.head_dim > 64 ? 2 : 3;
  constexpr bool kHalves = Element<S::kQk>::kBytes == 2 && Element<S::kV>::kBytes == 2;
  if (kHalves && !std::is_empty_v<typename S::Key> && kTile.keys > 64) return 2;
  if (kTile.head_dim > 64) return kLight ? 3 : 2;
  return kLight ? 4 : 3;
}

/// kIndex: of the tile. note: nvcc 13 writes no host code for kernels that are templates of a struct's value.
template <class S, int kIndex>
__global__ void __launch_bounds__(kMostWarps * 32, blocks_a_processor<S, kTileTable[kIndex]>())
    attend(const __grid_constant__ Call call) {
  OCTET_DYNAMIC_SHARED(memory, 512);
  if (call.is_placed_by_memory) ptx::wait_for_earlier_kernels();
  constexpr Tile kTile = kTileTable[kIndex];
  auto& shared = *reinterpret_cast<SharedPlan<S, kTile>*>(memory);
  if constexpr (kTile.lone_blocks > 0)
    LoneAttention<S, kTile>(call, shared).run();
  else if constexpr (kTile.kept_blocks > 0)
    RowsInTurn<S, kTile>(call, shared).run();
  else
    Attention<S, kTile>(call, shared).run();
}

}  // namespace octet::cuda::mma
