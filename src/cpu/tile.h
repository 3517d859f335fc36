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

/// What the sums of a tile become where they are stored: sum * (scale * factor), in f32, each product
/// rounded.
struct TileScores {
  const float* factor;  ///< [row]
  const float* scale;   ///< [column][lane]
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

/// Weights of other rows that are made beside a product: the codes of P and the masses of `integer`
/// (IntegerWords::weigh), from distances in words. Rows are as many as the tile's.
struct TileWeights {
  static constexpr std::int64_t kKeys = 64;      ///< of a chunk
  static constexpr std::int64_t kSteps = 16;     ///< of the product that meet a chunk of each row
  static constexpr std::int64_t kColumns = 4;    ///< of the product, at least
  static constexpr std::int32_t kUnitBits = 10;  ///< of the fraction of an octave in a distance

  const std::byte* words;  ///< row r's at words + r * words_row
  std::int64_t words_row;
  const std::int32_t* reference;  ///< [row]: of the words whose weight is 1
  const std::byte* multiplier;    ///< [key]: 16 bits
  std::byte* p;                   ///< row r's codes at p + r * p_row
  std::int64_t p_row;
  std::byte* mass;         ///< [row]: a vector of 64-bit numbers, which the first chunk sets
  std::int64_t chunks;     ///< of a row
  std::int64_t begun = 0;  ///< -1: chunks before have set them

  /// What is left behind so many of them.
  TileWeights after(std::int64_t done) const {
    TileWeights left = *this;
    left.words += done * 2 * kKeys, left.multiplier += done * 2 * kKeys, left.p += done * kKeys;
    left.chunks -= done, left.begun = -1;
    return left;
  }
  /// How many of the chunks a product of so many steps does.
  std::int64_t beside(std::int64_t steps) const { return chunks < steps / kSteps ? chunks : steps / kSteps; }
};

/// Distances of other rows that are made beside a product: words of `integer` from its sums
/// (IntegerWords::distances_of_whole). Rows are as many as the tile's, their sums as far apart.
struct TileDistances {
  static constexpr std::int64_t kKeys = 64;    ///< of a chunk, as many as four columns have
  static constexpr std::int64_t kColumns = 4;  ///< of the product that meet a chunk of each row
  static constexpr std::int64_t kSteps = 16;   ///< of these, at least
  static constexpr std::int64_t kRows = 16;    ///< that the arrays of `view` have

  const std::byte* sums;   ///< row r's as far behind the first as in the tile's `out`
  const std::byte* level;  ///< [key]: 16 bits
  const std::byte* view;   ///< IntegerWords::RowView of each row: three arrays of kRows numbers of 32 bits
  std::byte* words;        ///< row r's at words + r * words_row
  std::int64_t words_row;
  std::byte* least;        ///< [row]: a vector of the least words, which the first chunk sets
  std::int64_t chunks;     ///< of a row
  std::int64_t begun = 0;  ///< -1: chunks before have set them

  /// What is left behind so many of them.
  TileDistances after(std::int64_t done) const {
    TileDistances left = *this;
    left.sums += done * 4 * kKeys, left.level += done * 2 * kKeys, left.words += done * 2 * kKeys;
    left.chunks -= done, left.begun = -1;
    return left;
  }
  /// How many of the chunks a product of so many steps and columns does.
  std::int64_t beside(std::int64_t steps, std::int64_t columns) const {
    if (steps < kSteps) return 0;
    return chunks < columns / kColumns ? chunks : columns / kColumns;
  }
};

/// Computes so many columns of the tile as it can do whole tiles of, all of its rows, with distances beside
/// them where not null, and the largest sums of each row and lane among them, in `largest` one vector a row;
/// returns how many columns.
using MultiplyWithLargest = std::int64_t (*)(const Tile& tile, std::byte* largest,
                                             const TileDistances* distances, std::int64_t columns);

/// Computes so many columns of the tile as it can do whole tiles of, all of its rows, with weights beside
/// them where not null; returns how many.
using MultiplyBeside = std::int64_t (*)(const Tile& tile, const TileWeights* weights, std::int64_t columns);
/// The same into wide numbers.
using MultiplyWide = std::int64_t (*)(const Tile& tile, const TileWide& wide, const TileWeights* weights,
                                      std::int64_t columns);

/// Computes so many columns of the tile as words, all of its rows, as it can do whole tiles of; returns how
/// many. Of a last column that is the first of a vector of words the other half is there too: its words are
/// those of the column after it, which no row sees, or the least. Steps of `b` lie one after the other.
using MultiplyToWords = std::int64_t (*)(const Tile& tile, const TileWords& words, std::int64_t columns);

/// Computes so many columns of the tile as scores, all of its rows, as it can do whole tiles of; returns how
/// many. Steps of `b` lie one after the other.
using MultiplyToScores = std::int64_t (*)(const Tile& tile, const TileScores& scores, std::int64_t columns);

}  // namespace octet::cpu
