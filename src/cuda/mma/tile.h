// The tiles that the mma.sync kernels are built for: one row a size, chosen on the host.
#pragma once
#include <cstdint>

namespace octet::cuda::mma {

/// head_dim: the channels of Q, K and V, each padded to it. keys: places of a packed key block. key_parts: of
/// the key blocks of a row, each computed by a warp of its own (attn/key_parts.cuh). computed: so many of the
/// places, the first, have scores and weights; a scheme's key block is at most that wide. lone_blocks: the
/// key blocks that a row has, and sees all keys of (attn/lone_block.cuh); 0: any. kept_blocks: those that a
/// row has at most, and sees all keys of, where they stay in shared memory from one tile of rows to the next
/// (mma/attend_in_turn.cuh); 0: they do not.
struct Tile {
  std::int32_t head_dim, keys, key_parts = 1, computed = keys, lone_blocks = 0, kept_blocks = 0;
};

/// Rows that a warp computes: those of one fragment.
inline constexpr std::int32_t kRowsAWarp = 16, kLog2RowsAWarp = 4;
/// Warps of a block of threads, each with rows of its own against the same keys, or with a part of them.
inline constexpr std::int32_t kMostWarps = 4;

/// The tiles there are, smallest first: the first that holds a problem is taken. head_dim 32 is for windows
/// of Swin; wider key blocks than 128 would not leave registers for outputs. Behind them those whose keys are
/// cut in parts, which schemes have that merge them, not of 64 places, for the build's sake, and those that
/// leave places out, of few schemes: 197 keys are two blocks of 112 (docs/cuda-measurements.md). Then those
/// for rows of one or two key blocks, of schemes of long rows, those that keep keys, of the few schemes that
/// leave places out, and those that keep keys in parts, of kernels that make codes themselves (cuda/plain).
inline constexpr Tile kTileTable[] = {{32, 64},
                                      {64, 64},
                                      {64, 128},
                                      {128, 128},
                                      {256, 128},
                                      {64, 128, 2},
                                      {64, 128, 1, 112},
                                      {64, 128, 2, 112},
                                      {32, 64, 1, 64, 1},
                                      {32, 64, 1, 56, 1},
                                      {64, 128, 1, 112, 2},
                                      {64, 128, 2, 128, 2},
                                      {64, 128, 2, 112, 2},
                                      {64, 128, 1, 128, 0, 2},
                                      {64, 128, 1, 112, 0, 3},
                                      {64, 128, 2, 128, 0, 3},
                                      {64, 128, 4, 128, 0, 2},
                                      {64, 128, 4, 128, 0, 5}};
inline constexpr int kPackedTiles = 5, kTileCount = sizeof(kTileTable) / sizeof(kTileTable[0]);
inline constexpr std::int32_t kMostKeys = 128;
inline constexpr std::int32_t kMostDim = 256;

/// Whether kernels of the tile may have keys cut in ranges (cuda/ranges.h), whose long rows need no others.
constexpr bool may_have_ranges(const Tile& tile) {
  return tile.keys == kMostKeys && tile.computed == tile.keys && tile.lone_blocks == 0 &&
         tile.kept_blocks == 0;
}

/// The tile of the same places with so many parts that computes so many of them; -1: there is none.
constexpr int tile_like(int tile, std::int32_t key_parts, std::int32_t computed, std::int32_t lone_blocks = 0,
                        std::int32_t kept_blocks = 0) {
  for (int i = 0; i < kTileCount; ++i)
    if (kTileTable[i].head_dim == kTileTable[tile].head_dim && kTileTable[i].keys == kTileTable[tile].keys &&
        kTileTable[i].key_parts == key_parts && kTileTable[i].computed == computed &&
        kTileTable[i].lone_blocks == lone_blocks && kTileTable[i].kept_blocks == kept_blocks)
      return i;
  return -1;
}

/// The tile that keys are packed for, which serves all of the same places.
constexpr int packed_tile(int tile) { return tile_like(tile, 1, kTileTable[tile].keys); }

/// The tile with as many parts that computes the fewest places for so many keys.
constexpr int narrowest_tile(int tile, std::int64_t keys) {
  int narrowest = tile;
  for (int i = 0; i < kTileCount; ++i)
    if (keys <= kTileTable[i].computed && kTileTable[i].computed < kTileTable[narrowest].computed &&
        tile_like(tile, kTileTable[tile].key_parts, kTileTable[i].computed) == i)
      narrowest = i;
  return narrowest;
}

/// The tile of the same places for rows of so many key blocks, each part of them computed by a warp, that
/// computes the fewest places for so many keys; -1: there is none.
constexpr int lone_tile(int tile, std::int32_t lone_blocks, std::int32_t key_parts, std::int64_t keys) {
  int narrowest = -1;
  for (int i = 0; i < kTileCount; ++i)
    if (keys <= kTileTable[i].computed &&
        tile_like(tile, key_parts, kTileTable[i].computed, lone_blocks) == i &&
        (narrowest < 0 || kTileTable[i].computed < kTileTable[narrowest].computed))
      narrowest = i;
  return narrowest;
}

/// Key blocks that a tile keeps of values of so many bytes. Three blocks of threads share a processor so,
/// which is all that registers hold, or of those that have a warp for each part of a row's keys two.
constexpr std::int32_t kept_blocks(const Tile& tile, std::int32_t value_bytes) {
  return value_bytes == 1 || tile.key_parts > 1 || tile.kept_blocks < 2 ? tile.kept_blocks : 2;
}
/// Eights of a key block's places that are computed by a tile that keeps keys: all, or of a block of few keys
/// so many. Those are the second one of 197 keys, 85 behind 112 and 69 behind 128, and the 77 of a text.
constexpr std::int32_t few_eights(const Tile& tile) { return tile.computed < tile.keys ? 11 : 10; }
constexpr std::int32_t computed_eights(const Tile& tile, std::int64_t keys) {
  return keys <= few_eights(tile) * 8 ? few_eights(tile) : tile.computed / 8;
}
/// The tile of the same places that keeps so many key blocks of so many keys and computes least; -1: there is
/// none.
constexpr int keeping_tile(int tile, std::int64_t blocks, std::int64_t keys, std::int32_t value_bytes) {
  int narrowest = -1;
  for (int i = 0; i < kTileCount; ++i)
    if (keys <= kTileTable[i].computed && blocks <= kept_blocks(kTileTable[i], value_bytes) &&
        tile_like(tile, 1, kTileTable[i].computed, 0, kTileTable[i].kept_blocks) == i &&
        (narrowest < 0 ||
         computed_eights(kTileTable[i], keys) < computed_eights(kTileTable[narrowest], keys)))
      narrowest = i;
  return narrowest;
}

/// The tile of the same places that keeps so many key blocks or the fewest more in so many parts; -1: there
/// is none.
constexpr int keeping_parts(int tile, std::int32_t parts, std::int64_t blocks) {
  for (int i = 0; i < kTileCount; ++i)
    if (kTileTable[i].kept_blocks >= blocks && kTileTable[i].kept_blocks > 0 &&
        tile_like(tile, parts, kTileTable[i].computed, 0, kTileTable[i].kept_blocks) == i)
      return i;
  return -1;
}

/// The first tile whose kernels may have ranges, from a tile on that is packed for.
constexpr int tile_of_ranges(int tile) {
  while (!may_have_ranges(kTileTable[tile])) ++tile;
  return tile;
}

/// The first tile that holds channels and keys, or -1.
constexpr int tile_for(std::int64_t head_dim, std::int64_t keys) {
  for (int i = 0; i < kPackedTiles; ++i)
    if (head_dim <= kTileTable[i].head_dim && keys <= kTileTable[i].keys) return i;
  return -1;
}

}  // namespace octet::cuda::mma
