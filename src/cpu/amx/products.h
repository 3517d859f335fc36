// The register tiles of AMX: 16 rows by 4 columns of 16 sums, 64 products of 8 bits or 32 of bf16 deep.
#pragma once
#include "cpu/tile.h"

namespace octet::cpu::amx {

inline constexpr int kRows = 16;

/// Sets the calling thread's tiles up for products of Q and K of so many groups, which all products need.
void begin(std::int64_t dim_groups);
/// Gives them back: a thread without has no tile state for its system to save.
void end();

// tile.start is not read: no operand is stored shifted, and sums start from 0.
void multiply_s8_s8(const Tile& tile, std::int64_t columns);    ///< Q K^T of begin()'s groups: a s8, b s8
void multiply_u8_s8(const Tile& tile, std::int64_t columns);    ///< P V: a u8, b s8
void multiply_qk_bf16(const Tile& tile, std::int64_t columns);  ///< the same of bf16
void multiply_pv_bf16(const Tile& tile, std::int64_t columns);
std::int64_t multiply_u8_s8_and_fold(const Tile& tile, const TileFold& fold, std::int64_t columns);
std::int64_t multiply_bf16_and_fold(const Tile& tile, const TileFold& fold, std::int64_t columns);
/// Of head dims up to 128.
std::int64_t multiply_s8_s8_to_words(const Tile& tile, const TileWords& words, std::int64_t columns);

}  // namespace octet::cpu::amx
