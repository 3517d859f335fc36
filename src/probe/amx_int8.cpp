#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "base/tile_config.h"
#include "probe/kernels.h"

namespace octet::probe {

/// Six accumulators (16 x 16 sums of 64 products) and two operands: all 8 tiles of 16 rows of 64 bytes.
void run_tdpbusd(std::int64_t rounds) {
  constexpr int kRows = TileConfig::kRows, kRowBytes = TileConfig::kRowBytes;
  const TileConfig config;
  alignas(64) std::uint8_t operand[kRows * kRowBytes];
  for (int i = 0; i < kRows * kRowBytes; ++i) operand[i] = static_cast<std::uint8_t>(i * 37 + 11);
  // gcc 12's intrinsics do not say how much memory they read: without this the stores above may be left out.
  asm volatile("" : : "r"(&config), "r"(operand) : "memory");
  _tile_loadconfig(&config);
  _tile_loadd(6, operand, kRowBytes);
  _tile_loadd(7, operand, kRowBytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_dpbusd(0, 6, 7);
    _tile_dpbusd(1, 6, 7);
    _tile_dpbusd(2, 6, 7);
    _tile_dpbusd(3, 6, 7);
    _tile_dpbusd(4, 6, 7);
    _tile_dpbusd(5, 6, 7);
  }
  _tile_release();
}

}  // namespace octet::probe
