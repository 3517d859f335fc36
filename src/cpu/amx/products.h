// The register tiles of AMX: 16 rows by 4 columns of 16 sums, 64 products of 8 bits deep.
#pragma once
#include "cpu/tile.h"

namespace octet::cpu::amx {

inline constexpr int kRows = 16;

/// Sets the calling thread's tiles up, which the products need.
void begin();
/// Gives them back: a thread without has no tile state for its system to save.
void end();

// tile.start is not read: no operand is stored shifted, and sums start from 0. Up to 60 bytes behind a row of
// tile.a are read, and multiplied by zeros.
void multiply_s8_s8(const Tile& tile, std::int64_t columns);  ///< a s8, b s8
void multiply_u8_s8(const Tile& tile, std::int64_t columns);  ///< a u8, b s8
/// The sums pass through tile.out, row after row without gaps, as many as they are at most.
std::int64_t multiply_s8_s8_to_words(const Tile& tile, const TileWords& words, std::int64_t columns);

}  // namespace octet::cpu::amx
