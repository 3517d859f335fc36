// The register tiles of AVX2: 6 rows by 8 or 16 sums. Operands are bytes in memory. vpmaddubsw's sums of two
// products saturate (2 * 255 * 127 > 32767), so they are widened as they are read, for vpmaddwd, whose are
// exact. With AVX-VNNI (256-bit vpdpbusd) they stay bytes.
#pragma once
#include "cpu/tile.h"

namespace octet::cpu::avx2 {

inline constexpr int kRows = 6;
/// Rows that the products of few rows take at most: the queries of a key head in many models.
inline constexpr int kFewRows = 4;

void multiply_s8_u8(const Tile& tile, std::int64_t columns);      ///< a s8, b u8
void multiply_u8_s8(const Tile& tile, std::int64_t columns);      ///< a u8, b s8
void multiply_f32(const Tile& tile, std::int64_t columns);        ///< fused multiply-add
void multiply_few_s8_u8(const Tile& tile, std::int64_t columns);  ///< the same of few rows, Q K^T
void multiply_few_u8_s8(const Tile& tile, std::int64_t columns);  ///< and P V
void multiply_few_qk_f32(const Tile& tile, std::int64_t columns);
void multiply_few_pv_f32(const Tile& tile, std::int64_t columns);

}  // namespace octet::cpu::avx2

namespace octet::cpu::avx_vnni {

void multiply_s8_u8(const Tile& tile, std::int64_t columns);  ///< a s8, b u8
void multiply_u8_s8(const Tile& tile, std::int64_t columns);  ///< a u8, b s8
void multiply_few_s8_u8(const Tile& tile, std::int64_t columns);
void multiply_few_u8_s8(const Tile& tile, std::int64_t columns);

}  // namespace octet::cpu::avx_vnni
