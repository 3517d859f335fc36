// A register tile of a matrix product, the only thing that both products of attention do: out = a b + start.
#pragma once
#include <cstddef>
#include <cstdint>

namespace octet::cpu {

/// What is asked of memory before it is read: the line so many bytes behind, into the first-level cache and
/// into the second-level one; 0: none.
struct Ahead {
  std::int64_t first_level = 0, second_level = 0;

  /// Whether whatever is asked for goes into the first-level cache.
  bool near() const { return first_level != 0 && second_level == 0; }
};

/// Rows of `a` times columns of `b`, `steps` groups of 4 bytes deep. A column is one vector wide.
struct Tile {
  const std::byte* a;  ///< row r's groups at a + r * a_row
  std::int64_t a_row;
  const std::byte* b;  ///< step s of column c at b + s * b_step + c * b_column
  std::int64_t b_step, b_column;
  std::int64_t steps;
  const std::int32_t* start;  ///< [row]: what the sums of integers start from
  std::byte* out;             ///< 32-bit sums of row r and column c at out + r * out_row + c * vector bytes
  std::int64_t out_row;
  std::int64_t rows;  ///< of `a` and `out`; products of few rows touch no others
  Ahead ahead;        ///< of b, for products of few rows
};

/// Computes `columns` columns of the tile, all of its rows.
using Multiply = void (*)(const Tile& tile, std::int64_t columns);

/// Both products of attention for one kind of operands: of a whole tile's rows, and of few: Tile::rows.
struct Multiplies {
  Multiply qk, pv, qk_few, pv_few;
};

/// Computes so many columns of the tile as it can do whole tiles of, all of its rows, and the largest sums of
/// each row and lane among them, in `largest` one vector a row; returns how many columns.
using MultiplyWithLargest = std::int64_t (*)(const Tile& tile, std::byte* largest, std::int64_t columns);

/// What the sums of a tile become instead of being stored: sum * factor * scale + level, in f32 with one
/// rounding of the last two, to the nearest word of 0...65535, saturated, in the order of the instruction
/// set's packs.
struct TileWords {
  const float* factor;  ///< [row]
  const float* scale;   ///< [column][lane]; null: 1
  const float* level;   ///< [column][lane]
  std::byte* out;       ///< words of row r at out + r * out_row
  std::int64_t out_row;
};

/// What the sums of a tile become instead of being stored: out = out * decay + sum * factor, in f32, the
/// addition and the product before it with one rounding.
struct TileFold {
  const float* decay;   ///< [row]; null: 0, and out may be anything
  const float* factor;  ///< [row]
  std::byte* out;       ///< row r and column c at out + r * out_row + c * vector bytes
  std::int64_t out_row;
};

/// Computes so many columns of the tile as it can do whole tiles of, all of its rows, into the outputs;
/// returns how many.
using MultiplyAndFold = std::int64_t (*)(const Tile& tile, const TileFold& fold, std::int64_t columns);

/// What the sums of a tile become instead of being stored: 64-bit numbers, sum * factor, added to those that
/// are there or set in their place.
struct TileWide {
  enum class What : std::int32_t { add, set } what;
  const std::int64_t* factor;  ///< [row], of 32 bits
  std::byte* const* out;       ///< [row]: its numbers of column c at out[row] + c * out_column, lane by lane
  std::int64_t out_column;
};

/// Computes so many columns of the tile as it can do whole tiles of, all of its rows, into the numbers;
/// returns how many.
using MultiplyWide = std::int64_t (*)(const Tile& tile, const TileWide& wide, std::int64_t columns);

/// Computes so many columns of the tile as words, all of its rows, as it can do whole tiles of; returns how
/// many. Of a last column that is the first of a vector of words the other half is there too: its words are
/// those of the column after it, which no row sees, or the least.
using MultiplyToWords = std::int64_t (*)(const Tile& tile, const TileWords& words, std::int64_t columns);

}  // namespace octet::cpu
