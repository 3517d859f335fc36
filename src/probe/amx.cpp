#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "base/tile_config.h"
#include "probe/kernels.h"

namespace octet::probe {
namespace {

/// Two tiles of operands, 6 and 7, and six of sums, 16 x 16 of 64 bytes' products each: all there are.
void begin(std::uint8_t first, std::uint8_t step) {
  constexpr int kRows = TileConfig::kRows, kRowBytes = TileConfig::kRowBytes;
  const TileConfig config;
  alignas(64) std::uint8_t operand[kRows * kRowBytes];
  for (int i = 0; i < kRows * kRowBytes; ++i) operand[i] = static_cast<std::uint8_t>(i * step + first);
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
}

// The numbers of tiles are part of the instructions.
#define OCTET_ROUNDS(MULTIPLY)                            \
  for (std::int64_t round = 0; round < rounds; ++round) { \
    MULTIPLY(0, 6, 7);                                    \
    MULTIPLY(1, 6, 7);                                    \
    MULTIPLY(2, 6, 7);                                    \
    MULTIPLY(3, 6, 7);                                    \
    MULTIPLY(4, 6, 7);                                    \
    MULTIPLY(5, 6, 7);                                    \
  }                                                       \
  _tile_release()

}  // namespace

void run_tdpbusd(std::int64_t rounds) {
  begin(11, 37);
  OCTET_ROUNDS(_tile_dpbusd);
}
void run_tdpbf16ps(std::int64_t rounds) {
  begin(0x3f, 0);  // all of one number near 1
  OCTET_ROUNDS(_tile_dpbf16ps);
}

}  // namespace octet::probe
