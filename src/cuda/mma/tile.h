// The tiles that the mma.sync kernels are built for: one row a size, chosen on the host.
#pragma once
#include <cstdint>

namespace octet::cuda::mma {

/// head_dim: the channels of Q, K and V, each padded to it. keys: the accumulators of one key block; a
/// scheme's key block is at most that wide. key_parts: of the key blocks of a row, each computed by a warp of
/// its own (attn/key_parts.cuh).
struct Tile {
  std::int32_t head_dim, keys, key_parts = 1;
};

/// Rows that a warp computes: those of one fragment.
inline constexpr std::int32_t kRowsAWarp = 16, kLog2RowsAWarp = 4;
/// Warps of a block of threads, each with rows of its own against the same keys, or with a part of them.
inline constexpr std::int32_t kMostWarps = 4;

/// The tiles there are, smallest first: the first that holds a problem is taken. head_dim 32 is for windows
/// of Swin; wider key blocks than 128 would not leave registers for outputs. Behind them those whose keys are
/// cut in parts, which schemes have that merge them.
inline constexpr Tile kTileTable[] = {{32, 64},   {64, 64},    {64, 128},   {128, 128},
                                      {256, 128}, {64, 64, 2}, {64, 128, 2}};
inline constexpr int kTileCount = 5, kTilesAndParts = sizeof(kTileTable) / sizeof(kTileTable[0]);
inline constexpr std::int32_t kMostKeys = 128;
inline constexpr std::int32_t kMostDim = 256;

/// The tile of the same size whose keys are cut in so many parts; -1: there is none.
constexpr int tile_in_parts(int tile, std::int32_t key_parts) {
  for (int i = 0; i < kTilesAndParts; ++i)
    if (kTileTable[i].head_dim == kTileTable[tile].head_dim && kTileTable[i].keys == kTileTable[tile].keys &&
        kTileTable[i].key_parts == key_parts)
      return i;
  return -1;
}

/// Index into kTileTable, or -1.
constexpr int tile_for(std::int64_t head_dim, std::int64_t keys) {
  for (int i = 0; i < kTileCount; ++i)
    if (head_dim <= kTileTable[i].head_dim && keys <= kTileTable[i].keys) return i;
  return -1;
}

}  // namespace octet::cuda::mma
