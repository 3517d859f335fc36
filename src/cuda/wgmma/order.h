// The order in which blocks of threads take tiles of query rows, which begin as earlier ones end: whoever
// comes last should have little to do.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/divider.h"
#include "base/hd.h"

namespace octet::cuda::wgmma {

/// Rows of tiles: the `heads` of a sequence, and then of the next one; `count` of them, from number `first`
/// on. Where sequences are not counted apart all of them count as one. query_rows: of a tile, at most.
struct HeadRows {
  std::int64_t heads, first, count, query_rows;
};

/// Smaller tiles: `each` of such rows in turn, those behind a RowTiles' own; count: of all.
struct SmallTiles {
  Divider each{1};
  std::int32_t count = 0, query_rows = 0;
};

/// Tiles of such rows: in sets of `together` rows each row's `first` tiles, from the last one on: of all rows
/// of the set, then the tile before of all. Then the small ones of the rows behind them. Then those that are
/// left, one a row. count: of all.
struct RowTiles {
  Divider first, heads;
  std::int32_t first_row, rows, count, query_rows;
  Divider together{1}, of_set{1};  ///< rows of a set, and its tiles
  SmallTiles small{};
  /// Query rows that a row's tile 0 has fewer than the others, which all are full; 0: the last tile is the
  /// one that may have fewer.
  std::int32_t lacking = 0;
};

struct TileNumber {
  std::int32_t row, tile;  ///< of the row
};
OCTET_HD bool is_small(const RowTiles& tiles, std::int32_t i) {
  const std::int32_t of_first = tiles.first * tiles.rows;
  return i >= of_first && i < of_first + tiles.small.count;
}
/// The query rows that tile i has at most.
OCTET_HD std::int32_t query_rows_of(const RowTiles& tiles, std::int32_t i) {
  return is_small(tiles, i) ? tiles.small.query_rows : tiles.query_rows;
}
OCTET_HD TileNumber number_of_tile(const RowTiles& tiles, std::int32_t i) {
  const std::int32_t of_first = tiles.first * tiles.rows, behind = i - of_first;
  if (is_small(tiles, i)) {
    const std::int32_t row = behind / tiles.small.each;
    return {tiles.first_row + tiles.rows + row, behind - row * tiles.small.each};
  }
  if (behind >= 0) return {tiles.first_row + behind - tiles.small.count, tiles.first};
  const std::int32_t set = i / tiles.of_set, in_set = i - set * tiles.of_set, turn = in_set / tiles.together;
  return {tiles.first_row + (set - turn) * tiles.together + in_set, tiles.first - 1 - turn};
}

/// Where a tile of so many query rows begins in its row, and how many of them are its own.
OCTET_HD std::int32_t begin_of_tile(const RowTiles& tiles, std::int32_t tile, std::int32_t query_rows) {
  const std::int32_t begin = tile * query_rows - tiles.lacking;
  return begin > 0 ? begin : 0;
}
OCTET_HD std::int32_t own_rows(const RowTiles& tiles, std::int32_t begin, std::int32_t query_rows) {
  return begin == 0 ? query_rows - tiles.lacking : query_rows;
}

/// One row after the other. tiles: of a row.
inline RowTiles row_after_row(std::int64_t tiles, const HeadRows& rows) {
  return {Divider(tiles),
          Divider(rows.heads),
          static_cast<std::int32_t>(rows.first),
          static_cast<std::int32_t>(rows.count),
          static_cast<std::int32_t>(tiles * rows.count),
          static_cast<std::int32_t>(rows.query_rows),
          Divider(1),
          Divider(tiles)};
}

/// Of rows whose tiles take as long as each other, but for a row's last one, which is shorter: behind all
/// others.
inline RowTiles short_ones_last(std::int64_t tiles, const HeadRows& rows) {
  RowTiles of = row_after_row(tiles - 1, rows);
  of.count += of.rows;
  return of;
}

/// Of rows whose tiles take about as long as each other: the last `with_small` in tiles of so many query rows
/// instead, which keep more processors busy at a call's end than full ones do. of_row: query rows of each.
inline RowTiles small_ones_last(HeadRows rows, std::int64_t of_row, std::int64_t with_small,
                                std::int64_t query_rows_of_small) {
  rows.count -= with_small;
  RowTiles of = row_after_row(of_row / rows.query_rows, rows);
  const std::int64_t each = (of_row + query_rows_of_small - 1) / query_rows_of_small;
  of.small = {Divider(each), static_cast<std::int32_t>(each * with_small),
              static_cast<std::int32_t>(query_rows_of_small)};
  of.count += of.small.count + (of_row % rows.query_rows != 0 ? of.rows : 0);
  return of;
}

/// Of rows whose later tiles have more keys (a causal mask): the longest of up to `most` rows together come
/// first. More rows give a shorter end, but all of a set's keys are read at the same time. lacking: query
/// rows that `tiles` full ones have room for and a row has not. Its tile 0, which sees the fewest keys, lacks
/// them, and not the last one, whose keys would be multiplied for few rows.
inline RowTiles longest_first(std::int64_t tiles, const HeadRows& rows, std::int64_t most,
                              std::int64_t lacking) {
  RowTiles of = row_after_row(tiles, rows);
  of.lacking = static_cast<std::int32_t>(lacking);
  std::int64_t together = std::clamp<std::int64_t>(most, 1, rows.count);
  while (rows.count % together != 0) --together;
  of.together = Divider(together), of.of_set = Divider(together * tiles);
  return of;
}

}  // namespace octet::cuda::wgmma
