// The register tiles of AVX-512 with VNNI: 6 rows by 4 columns of 16 sums, two of them for a group of rows.
#pragma once
#include "cpu/table_row.h"
#include "cpu/tile.h"

namespace octet::cpu::avx512 {

/// Rows of a group: what its softmax does once for all of them waits for itself, and takes as long for 6.
inline constexpr int kTileRows = 6, kRows = 2 * kTileRows, kFewRows = 4;

void multiply_s8_u8(const Tile& tile, std::int64_t columns);  ///< a s8, b u8
std::int64_t multiply_s8_u8_to_words(const Tile& tile, const TileWords& words, std::int64_t columns);
std::int64_t multiply_s8_u8_to_scores(const Tile& tile, const TileScores& scores, std::int64_t columns);
std::int64_t multiply_u8_s8_and_fold(const Tile& tile, const TileFold& fold, std::int64_t columns);
std::int64_t multiply_f32_and_fold(const Tile& tile, const TileFold& fold, std::int64_t columns);
void multiply_u8_s8(const Tile& tile, std::int64_t columns);      ///< a u8, b s8
void multiply_f32(const Tile& tile, std::int64_t columns);        ///< fused multiply-add
void multiply_few_s8_u8(const Tile& tile, std::int64_t columns);  ///< the same for up to kFewRows rows
void multiply_few_u8_s8(const Tile& tile, std::int64_t columns);
void multiply_few_s8_s8(const Tile& tile, std::int64_t columns);  ///< Q K^T: to b's codes 128 is added
void multiply_few_qk_f32(const Tile& tile, std::int64_t columns);
void multiply_few_pv_f32(const Tile& tile, std::int64_t columns);

// The same of groups of 16 rows, in tiles of 4 rows by 4 columns.

inline constexpr int kFoursRows = 16;

void fours_s8_u8(const Tile& tile, std::int64_t columns);
void fours_u8_s8(const Tile& tile, std::int64_t columns);
std::int64_t fours_s8_u8_with_largest(const Tile& tile, std::byte* largest, const TileDistances* distances,
                                      std::int64_t columns);
std::int64_t fours_u8_s8_beside(const Tile& tile, const TileWeights* weights, std::int64_t columns);
std::int64_t fours_u8_s8_wide(const Tile& tile, const TileWide& wide, const TileWeights* weights,
                              std::int64_t columns);

/// Whether look_up_codes() may be called: the processor has VBMI.
bool looks_up_codes();
/// Codes of a row of scores; returns their sum.
std::int32_t look_up_codes(const TableRow& row);

}  // namespace octet::cpu::avx512
