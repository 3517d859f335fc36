// AMX's tiles as every user of them here has them.
#pragma once
#include <cstdint>

namespace octet {
namespace {  // local to each translation unit, which has flags of its own

/// What LDTILECFG reads: palette 1, and all eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  static constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr TileConfig() {
    for (int t = 0; t < kTiles; ++t) row_bytes[t] = kRowBytes, rows[t] = kRows;
  }
};

}  // namespace
}  // namespace octet
