#include "cuda/hopper_cuts.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/cuts.h"
#include "cuda/ranges.h"
#include "cuda/runtime/device.h"
#include "cuda/wgmma/fill.h"
#include "cuda/wgmma/shares.h"

namespace octet::cuda {
namespace {

/// The tile of Hopper's kernels that one of mma's is packed as, or -1.
int hopper_tile(int tile_index) {
  const mma::Tile tile = mma::kTileTable[tile_index];
  return wgmma::tile_for(tile.head_dim, tile.keys);
}

}  // namespace

const wgmma::Kernels* hopper_kernels_for(const AttentionDesc& d, int tile_index, PackedFor packed_for) {
  const int index = hopper_tile(tile_index);
  if (index < 0 || d.bias != AttentionDesc::Bias::none || !runtime::is_hopper()) return nullptr;
  return wgmma::kernels_of(d.scheme, form_of(d, Family::wgmma, E4m3::as_it_is, packed_for));
}

bool hopper_may_have_ranges(const AttentionDesc& d, int tile_index, PackedFor packed_for) {
  return may_have_ranges(d) &&
         hopper_kernels_for(d, tile_index, packed_for)->may_have_ranges[hopper_tile(tile_index)];
}

std::int32_t hopper_rows(const AttentionDesc& d, int tile_index, PackedFor packed_for) {
  const int index = hopper_tile(tile_index);
  return hopper_kernels_for(d, tile_index, packed_for)->warpgroups[index] * wgmma::kRowsAWarpgroup;
}

namespace {

constexpr std::int64_t kMostRangesOfHopper = 8, kMostBytesOfHopper = std::int64_t{32} << 20;

/// Whether query rows see all keys of their sequence, or those up to their own place, as far as is known
/// where the call is made.
bool has_known_rows(const AttentionDesc& d) {
  return d.sequences == 0 && d.bias == AttentionDesc::Bias::none && d.window_left < 0 && d.window_right < 0;
}
/// Whether full tiles of a call are as long as each other, to a quarter, and long enough to share them out.
bool has_tiles_alike(const AttentionDesc& d) {
  constexpr std::int64_t kLeastBlocks = 8;
  if (!has_known_rows(d) || (d.mask == Mask::causal && 4 * (d.tokens_k - d.tokens_q) < 3 * d.tokens_k))
    return false;
  return key_blocks_of(d) >= kLeastBlocks;
}
/// Whether they may have their keys cut, too.
bool suits_ranges(const AttentionDesc& d) {
  return has_tiles_alike(d) && may_have_ranges(d) && kernels_for(d, Cut{}).merges_ranges;
}

/// Of the time of a full tile's key blocks, that of next to no rows. Measured on an H200: of three warpgroups
/// one takes 0.45 to 0.57 of the time and two 0.71 to 0.83, of four 0.41, 0.67 and three 0.80, with V of 16
/// bits the most (docs/cuda-measurements.md).
double shortest_tile(const AttentionDesc& d) {
  constexpr double kOfCodes = 0.3, kOfHalves = 0.4;
  return kernels_for(d, Cut{}).v_bytes > 1 ? kOfHalves : kOfCodes;
}

wgmma::Shares hopper_shares(const AttentionDesc& d, int tile_index, PackedFor packed_for) {
  if (!has_known_rows(d) || d.tokens_q == 0) return {};
  const std::int64_t rows = hopper_rows(d, tile_index, packed_for), dim = d.head_dim_v;
  const bool is_causal = d.mask == Mask::causal;
  wgmma::Work work;
  work.heads = d.batch * d.heads_q;
  work.rows = d.tokens_q, work.warpgroups = rows / wgmma::kRowsAWarpgroup;
  const std::int64_t hidden = is_causal ? d.tokens_q / 2 : 0;  // of a row of average length
  work.key_blocks = static_cast<double>(groups_of_sequence(d.tokens_k - hidden, d.key_block));
  work.processors = std::max<std::int64_t>(runtime::processors(), 1);
  work.shortest = shortest_tile(d);
  if (!has_tiles_alike(d)) {
    // Short or unlike tiles fill the end of a call's turns themselves, if it has any but the first.
    if (work.heads * work.tiles_of_head() > work.processors) return {};
    if (is_causal) work.keys = d.tokens_k, work.key_block = d.key_block;
  } else if (suits_ranges(d) && hopper_may_have_ranges(d, tile_index, packed_for)) {
    work.most_with_ranges = kMostBytesOfHopper / (rows * RangeCut::bytes_of_row(dim));
  }
  // 132 tiles of 192 x 128 outputs are written and read in the time of some five key blocks.
  work.merging = static_cast<double>(rows * dim) * 5 / (132.0 * 192 * 128);
  return wgmma::shares_of(work);
}

}  // namespace

std::int64_t hopper_range_bytes(const AttentionDesc& d) {
  if (!suits_ranges(d)) return 0;
  const std::int64_t rows = d.batch * d.heads_q * d.tokens_q * kMostRangesOfHopper;
  return std::min(kMostBytesOfHopper, rows * RangeCut::bytes_of_row(d.head_dim_v));
}

bool suits_hopper(const AttentionDesc& d) {
  const int tile = tile_of(d);
  if (!hopper_kernels_for(d, tile)) return false;
  const bool narrow = mma::kTileTable[tile].head_dim <= 64;
  const Form form = form_of(d, Family::mma, E4m3::as_it_is, PackedFor::this_call);
  const mma::Kernels& kernels = kernels_for(d, Cut{});
  const bool uniform = form == Form::uniform && !kernels.multiplies_e4m3;
  // Measured: of 512 keys uniform int8 and int4 are faster by mma.sync unless tiles are full, or always.
  const bool takes_more = narrow && (uniform || d.scheme == Scheme::int4);
  constexpr std::int64_t kMany = 512, kMore = 1024;
  const std::int64_t least_percent = narrow ? 70 : 50;
  const std::int64_t all = std::max<std::int64_t>(runtime::processors(), 1), rows = hopper_rows(d, tile);
  const std::int64_t tiles = groups_of(d, d.tokens_q, rows) * d.heads_q;
  const std::int64_t at_once = (tiles + all - 1) / all * all;  // of as many turns
  // Rows of one warp against keys of bytes: a card full of mma.sync's blocks of threads reads these faster
  // (32 x 32 x 1 of 4096 x 128 on an H200: int8 321 instead of 403 us, int8_half 372 instead of 439).
  constexpr std::int64_t kFull = 3, kWidest = 128;
  if (tokens_of_sequence(d, d.tokens_q) <= mma::kRowsAWarp && tiles > kFull * all &&
      mma::kTileTable[tile].head_dim <= kWidest && kernels.k_dtype == DType::s8)
    return false;
  const std::int64_t keys = key_blocks_of(d) * d.key_block;
  if (keys >= (takes_more ? kMore : kMany) && 100 * tiles >= least_percent * at_once) return true;
  if (narrow && uniform && keys < kMany) return false;
  const std::int64_t rows_of_call = d.tokens_q * (d.sequences > 0 ? 1 : d.batch) * d.heads_q;
  const int index = wgmma::tile_for(mma::kTileTable[tile].head_dim, mma::kTileTable[tile].keys);
  return 100 * rows_of_call >= wgmma::least_fill(d.scheme, form, index, key_blocks_of(d)) * at_once * rows;
}

Cut hopper_cut(const AttentionDesc& d, int tile_index, PackedFor packed_for) {
  Cut cut{tile_index, hopper_rows(d, tile_index, packed_for) / mma::kRowsAWarp, Family::wgmma};
  cut.packed_for = packed_for;
  return cut;
}

namespace {

Cut hopper_cut_with(const wgmma::Shares& shares, const AttentionDesc& d, int tile_index,
                    PackedFor packed_for) {
  Cut cut = hopper_cut(d, tile_index, packed_for);
  cut.ranges = static_cast<std::int32_t>(shares.ranges);
  cut.last_rows = static_cast<std::int32_t>(shares.warpgroups) * wgmma::kRowsAWarpgroup;
  if (shares.heads < d.batch * d.heads_q) cut.last_heads = static_cast<std::int32_t>(shares.heads);
  return cut;
}

}  // namespace

Cut usual_hopper_cut(const AttentionDesc& d, int tile_index, PackedFor packed_for) {
  return hopper_cut_with(hopper_shares(d, tile_index, packed_for), d, tile_index, packed_for);
}

namespace {

/// How busy Hopper's kernels, by their best shares of the tiles, have to keep the processors to be faster
/// than mma.sync's; more than 1: never. Measured on an H200 (docs/cuda-measurements.md).
double least_busy(const AttentionDesc& d, int tile_index, Otherwise otherwise) {
  constexpr double kNever = 2, kFew = 0.1, kFewOfWide = 0.05, kMost = 0.5;
  constexpr std::int64_t kOfLoneTiles = 2, kMany = 8;  // key blocks
  const mma::Tile& tile = mma::kTileTable[tile_index];
  const mma::Kernels& kernels = kernels_for(d, Cut{});
  const bool narrow = tile.head_dim <= 64, wide = tile.head_dim > 128;
  const std::int64_t blocks = key_blocks_of(d);
  if (blocks < kOfLoneTiles || (narrow && blocks == kOfLoneTiles)) return kNever;
  if (otherwise == Otherwise::ranges) return narrow ? 0.3 : 0.2;
  const bool uniform = form_of(d, Family::mma, E4m3::as_it_is, PackedFor::this_call) == Form::uniform &&
                       !kernels.multiplies_e4m3;
  if (wide) return kFewOfWide;
  if (d.scheme == Scheme::int4 || (narrow && uniform)) return kMost;
  // Two warps that part the keys of codes of few channels are what mma.sync is best at.
  const Cut parts{mma::tile_like(tile_index, 2, tile.computed), 2};
  const bool may_part = parts.tile >= 0 && fits(d, parts);
  if (!narrow || kernels.v_bytes > 1 || kernels.multiplies_e4m3 || !may_part) return kFew;
  return blocks < kMany ? 0.4 : 0.25;
}

}  // namespace

std::optional<Cut> shared_hopper_cut(const AttentionDesc& d, Otherwise otherwise) {
  const int tile = tile_of(d);
  if (d.tokens_q <= wgmma::kRowsAWarpgroup || !hopper_kernels_for(d, tile)) return {};
  const wgmma::Shares shares = hopper_shares(d, tile, PackedFor::this_call);
  const bool is_shared = shares.ranges > 0 || shares.warpgroups > 0;
  if (shares.busy < least_busy(d, tile, otherwise) || (has_tiles_alike(d) && !is_shared)) return {};
  return hopper_cut_with(shares, d, tile, PackedFor::this_call);
}

std::vector<Cut> shared_hopper_cuts(const AttentionDesc& d, int tile) {
  if (d.sequences > 0) return {};
  const std::int64_t all = std::max<std::int64_t>(runtime::processors(), 1), heads = d.batch * d.heads_q;
  const std::int64_t rows = hopper_rows(d, tile), of_head = groups_of_sequence(d.tokens_q, rows);
  // Of as many tiles a head: what fills turns.
  const auto last = [&](std::int64_t tiles) {
    const std::int64_t left = heads - heads * tiles / all * all / tiles;
    return static_cast<std::int32_t>(left > 0 && left < heads ? left : heads / 2);
  };
  std::vector<Cut> cuts;
  const auto add = [&](const Cut& of_all, std::int32_t some) {
    cuts.push_back(of_all);
    if (some == 0) return;
    cuts.push_back(of_all);
    cuts.back().last_heads = some;
  };
  constexpr std::int32_t kFew[] = {2, 3, 4};
  for (const std::int32_t ranges : kFew) {
    if (!hopper_may_have_ranges(d, tile) || ranges > key_blocks_of(d)) break;
    Cut cut = hopper_cut(d, tile);
    cut.ranges = ranges;
    add(cut, last(of_head));
  }
  for (std::int32_t small = wgmma::kRowsAWarpgroup; small < rows; small += wgmma::kRowsAWarpgroup) {
    Cut cut = hopper_cut(d, tile);
    cut.last_rows = small;
    add(cut, last(std::max<std::int64_t>(wgmma::full_tiles_before(d.tokens_q, rows, small), 1)));
  }
  return cuts;
}

}  // namespace octet::cuda
