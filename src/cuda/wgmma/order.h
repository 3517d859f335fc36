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

/// Of `each` tiles in turn; count: of all. query_rows: of one at most.
struct TilesOfRows {
  Divider each{1};
  std::int32_t count = 0, query_rows = 0;
};

/// Tiles of such rows: in sets of `together` rows each row's `first` tiles, from the last one on: of all rows
/// of the set, then the tile before of all. Then the small ones of the rows behind them. Then those behind
/// each row's first ones. of_first: the first ones of all rows; count: of all tiles. query_rows: of a tile of
/// these.
struct RowTiles {
  Divider first, heads;
  std::int32_t first_row, rows, of_first, count, query_rows;
  Divider together{1}, of_set{1};  ///< rows of a set, and its tiles
  TilesOfRows small{}, behind{};
  /// Query rows that a row's tile 0 has fewer than the others, which all are full; 0: the last tile is the
  /// one that may have fewer.
  std::int32_t lacking = 0;
};

/// Where a tile begins in its row.
struct TilePlace {
  std::int32_t row, begin;
};
OCTET_HD TilePlace place_of_tile(const RowTiles& tiles, std::int32_t i) {
  if (i < tiles.of_first) {
    const std::int32_t set = i / tiles.of_set, in_set = i - set * tiles.of_set,
                       turn = in_set / tiles.together;
    const std::int32_t begin = (tiles.first - 1 - turn) * tiles.query_rows - tiles.lacking;
    return {tiles.first_row + (set - turn) * tiles.together + in_set, begin > 0 ? begin : 0};
  }
  const std::int32_t of_small = i - tiles.of_first, of_behind = of_small - tiles.small.count;
  const bool is_small = of_behind < 0;
  const TilesOfRows& some = is_small ? tiles.small : tiles.behind;
  const std::int32_t at = is_small ? of_small : of_behind, row = at / some.each,
                     begin = (at - row * some.each) * some.query_rows;
  if (is_small) return {tiles.first_row + tiles.rows + row, begin};
  return {tiles.first_row + row, tiles.first * tiles.query_rows + begin};
}
/// Query rows that tile i has room for.
OCTET_HD std::int32_t query_rows_of(const RowTiles& tiles, std::int32_t i) {
  if (i < tiles.of_first) return tiles.query_rows;
  return i < tiles.of_first + tiles.small.count ? tiles.small.query_rows : tiles.behind.query_rows;
}
/// How many of these are its own, of the tile i that begins there, where the row has them.
OCTET_HD std::int32_t own_rows(const RowTiles& tiles, std::int32_t i, std::int32_t begin) {
  return query_rows_of(tiles, i) - (begin == 0 ? tiles.lacking : 0);
}

/// One row after the other. tiles: of a row.
inline RowTiles row_after_row(std::int64_t tiles, const HeadRows& rows) {
  return {Divider(tiles),
          Divider(rows.heads),
          static_cast<std::int32_t>(rows.first),
          static_cast<std::int32_t>(rows.count),
          static_cast<std::int32_t>(tiles * rows.count),
          static_cast<std::int32_t>(tiles * rows.count),
          static_cast<std::int32_t>(rows.query_rows),
          Divider(1),
          Divider(tiles)};
}

/// Of rows whose tiles take as long as each other, but for a row's last one, which is shorter: behind all
/// others.
inline RowTiles short_ones_last(std::int64_t tiles, const HeadRows& rows) {
  RowTiles of = row_after_row(tiles - 1, rows);
  of.behind = {Divider(1), of.rows, of.query_rows};
  of.count += of.rows;
  return of;
}

/// Full tiles of a row of which the last query rows have tiles of fewer: as many as there are, or one less
/// where the others then leave fewer places empty.
inline std::int64_t full_tiles_before(std::int64_t of_row, std::int64_t query_rows,
                                      std::int64_t query_rows_of_small) {
  const auto empty = [&](std::int64_t full) {
    const std::int64_t left = of_row - full * query_rows;
    return (left + query_rows_of_small - 1) / query_rows_of_small * query_rows_of_small - left;
  };
  const std::int64_t all = of_row / query_rows;
  return all > 0 && empty(all - 1) < empty(all) ? all - 1 : all;
}

/// Of rows whose tiles take about as long as each other: the last `with_small` in tiles of so many query rows
/// instead, and what is left of the others too, for these keep more processors busy at a call's end than full
/// ones do. of_row: query rows of each.
inline RowTiles small_ones_last(HeadRows rows, std::int64_t of_row, std::int64_t with_small,
                                std::int64_t query_rows_of_small) {
  const std::int64_t full = full_tiles_before(of_row, rows.query_rows, query_rows_of_small);
  rows.count -= with_small;
  RowTiles of = row_after_row(full, rows);
  const auto small_tiles = [&](std::int64_t query_rows, std::int64_t count) {
    const std::int64_t each = (query_rows + query_rows_of_small - 1) / query_rows_of_small;
    return TilesOfRows{Divider(each), static_cast<std::int32_t>(each * count),
                       static_cast<std::int32_t>(query_rows_of_small)};
  };
  of.small = small_tiles(of_row, with_small);
  of.behind = small_tiles(of_row - full * rows.query_rows, rows.count);
  of.count += of.small.count + of.behind.count;
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
