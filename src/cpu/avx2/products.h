// The register tiles of AVX2: 6 rows by 2 columns of 8 sums. Integers are held in 16 bits: vpmaddwd's sums of
// two products are exact, while vpmaddubsw saturates (2 * 255 * 127 > 32767). With AVX-VNNI (256-bit
// vpdpbusd) they stay in 8 bits.
#pragma once
#include "cpu/tile.h"

namespace octet::cpu::avx2 {

inline constexpr int kRows = 6;

void multiply_s16(const Tile& tile, std::int64_t columns);
void multiply_f32(const Tile& tile, std::int64_t columns);      ///< fused multiply-add
void multiply_row_s16(const Tile& tile, std::int64_t columns);  ///< the same for one row
void multiply_row_f32(const Tile& tile, std::int64_t columns);

}  // namespace octet::cpu::avx2

namespace octet::cpu::avx_vnni {

void multiply_s8_u8(const Tile& tile, std::int64_t columns);  ///< a s8, b u8
void multiply_u8_s8(const Tile& tile, std::int64_t columns);  ///< a u8, b s8
void multiply_row_s8_u8(const Tile& tile, std::int64_t columns);
void multiply_row_u8_s8(const Tile& tile, std::int64_t columns);

}  // namespace octet::cpu::avx_vnni
