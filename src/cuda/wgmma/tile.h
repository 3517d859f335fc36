// The tiles that the Hopper kernels are built for.
#pragma once
#include <cstdint>

namespace octet::cuda::wgmma {

/// Channels of Q, K and V, each padded to them: of 64, 128 or 256.
inline constexpr std::int32_t kHeadDims[] = {64, 128, 256};
inline constexpr int kTileCount = 3;
/// Keys of a tile, as those that packing is for (mma/tile.h).
inline constexpr int kKeys = 128;
inline constexpr int kRowsAWarp = 16, kRowsAWarpgroup = 64, kWarpgroup = 128;  ///< the last one: threads
/// Shared memory that a block of threads may have on sm_90.
inline constexpr int kSharedBytes = 227 * 1024;

/// Index into kHeadDims, or -1.
constexpr int tile_for(std::int64_t head_dim, std::int64_t keys) {
  for (int i = 0; i < kTileCount; ++i)
    if (head_dim == kHeadDims[i] && keys == kKeys) return i;
  return -1;
}

}  // namespace octet::cuda::wgmma
