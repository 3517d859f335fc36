#include "cuda/range_cuts.h"

#include <algorithm>

#include "cuda/cuts.h"
#include "cuda/ranges.h"
#include "cuda/runtime/device.h"

namespace octet::cuda {
namespace {

/// Blocks of threads of a call's rows, as many rows as `warps` warps have in each, whose keys are not cut.
/// joined: query heads that are computed together.
std::int64_t row_tiles_of(const AttentionDesc& d, std::int64_t joined, std::int32_t warps) {
  const std::int64_t sequences = d.sequences > 0 ? d.sequences : d.batch;
  return groups_of_sequence(tokens_of_sequence(d, d.tokens_q) * joined, warps * mma::kRowsAWarp) *
         (d.heads_q / joined) * sequences;
}

std::int32_t warps_of_ranges(const AttentionDesc& d) {
  return warps_of_rows(tokens_of_sequence(d, d.tokens_q) * RangeCut(d, 1).joined);
}

/// Ranges of a sequence of average length that give each of `all` processors so many blocks of threads, as
/// long as each other. A range has two key blocks or more, and of tiles of many rows one for each warp, for
/// else its outputs would be as much as its keys.
std::int64_t even_ranges(const AttentionDesc& d, std::int32_t warps, std::int64_t of_processor,
                         std::int64_t all) {
  constexpr std::int64_t kLeast = 2;
  const std::int64_t blocks = seen_blocks(d), least = std::max<std::int64_t>(kLeast, warps);
  const std::int64_t tiles = row_tiles_of(d, RangeCut(d, 1).joined, warps);
  const std::int64_t ranges = std::max<std::int64_t>(std::min(of_processor * all / tiles, blocks / least), 1);
  return groups_of_sequence(blocks, groups_of_sequence(blocks, ranges));
}

/// Who copies keys. Of wide rows of bytes all warps that there may be, whether they have rows or not (32 over
/// 8 x 1 of 4096 x 128, int8 on an H200, merged by a kernel: 11.8 us instead of 12.4, batch 32 of it 78
/// instead of 88; f16 19.6 instead of 14.3, for less blocks of threads fit).
enum class Copies : std::int32_t { by_warps_of_rows, by_all_warps };

/// The cut of ranges by as many warps as its blocks of threads have best. One warp has a part of the keys
/// where its tile has two.
Cut with_warps(const AttentionDesc& d, Cut cut, Copies copies) {
  const bool is_wide = mma::kTileTable[cut.tile].head_dim > 64 && kernels_for(d, cut).k_bytes == 1;
  if (copies == Copies::by_all_warps && is_wide) cut.warps = mma::kMostWarps;
  while (cut.warps > 1 && !fits(d, cut)) cut.warps /= 2;
  const Cut parts{mma::tile_like(cut.tile, 2, mma::kTileTable[cut.tile].computed), 1};
  if (cut.warps == 1 && parts.tile >= 0 && fits(d, parts)) cut.tile = parts.tile;
  return cut;
}

constexpr std::int32_t kSmallCluster = 8;

/// Whether ranges are merged faster by clusters, where the device runs these. Of one warp's rows, those that
/// are all a processor's only blocks of threads, or of wide rows more than eight: a step of a cache, whose
/// other kernels come before, takes longer by small ones that share processors (batch 8 of 32 over 8 x 1 of
/// 4096 x 128, int8 on an H200: 38 us in place of 34), and so do narrow rows (16 x 1 of 16384 x 64 in 16
/// ranges: 19.5 us, 16.4 by a kernel). Of more rows, no more than eight (32 over 8 x 16 of 8192 x 128: 20.7
/// us, 18.6 by a kernel).
bool suits_clusters(const AttentionDesc& d, const Cut& cut) {
  const bool is_small = cut.ranges <= kSmallCluster;
  if (warps_of_ranges(d) > 1) return is_small;
  if (!is_small && mma::kTileTable[cut.tile].head_dim > 64) return true;
  return row_tiles_of(d, RangeCut(d, 1).joined, 1) * cut.ranges <= runtime::processors();
}

}  // namespace

std::int32_t usual_ranges(const AttentionDesc& d, std::int64_t all) {
  constexpr std::int64_t kOfProcessor = 2, kOfNarrow = 4, kLeastKeys = 1024, kLeast = 4;
  if (!may_have_ranges(d) || !kernels_for(d, Cut{}).merges_ranges) return 0;
  if (seen_blocks(d) * d.key_block < kLeastKeys) return 0;
  const RangeCut cut(d, 1);
  const std::int32_t warps = warps_of_ranges(d);
  const std::int64_t tiles = row_tiles_of(d, cut.joined, warps),
                     sequences = std::max<std::int64_t>(d.sequences, 1);
  const bool are_few = 2 * tiles <= all;
  const bool have_one_tile = cut.rows() <= mma::kMostWarps * mma::kRowsAWarp * sequences;
  const bool saves = have_one_tile && (d.sequences > 0 || 2 * tiles <= row_tiles_of(d, 1, warps));
  if (!are_few && !saves) return 0;
  const bool narrow = warps == 1 && mma::kTileTable[tile_of(d)].head_dim <= 64;
  const std::int64_t rows = cut.count * cut.rows();
  const std::int64_t ranges = std::max<std::int64_t>(
      std::min(even_ranges(d, warps, narrow ? kOfNarrow : kOfProcessor, all), kMostRangeRows / rows), 1);
  if (ranges < kLeast && !saves) return 0;
  if (d.sequences == 0) return static_cast<std::int32_t>(ranges);
  const std::int64_t most =
      std::clamp<std::int64_t>(RangeCut::kLongest * kMostRangeRows / rows, 1, RangeCut::kLongest * ranges);
  return most > 1 || cut.joined > 1 ? static_cast<std::int32_t>(most) : 0;
}

bool runs_clusters(const AttentionDesc& d, const Cut& cut) {
  if (d.sequences > 0 || cut.ranges < 2 || cut.ranges > KeyRanges::kMostOfCluster) return false;
  const mma::Kernels& kernels = kernels_for(d, cut);
  mma::Grid grid;
  grid.ranges = cut.ranges, grid.warps = cut.warps;
  grid.shared_bytes = kernels.shared_bytes(cut.tile, cut.warps);
  return row_tiles_of(d, RangeCut(d, 1).joined, cut.warps) <= kernels.clusters(cut.tile, grid);
}

Cut with_merging(const AttentionDesc& d, Cut cut) {
  cut.merging = suits_clusters(d, cut) && runs_clusters(d, cut) ? Merging::in_cluster : Merging::by_kernel;
  return cut;
}

Cut range_cut(const AttentionDesc& d) {
  Cut cut{mma::tile_of_ranges(tile_of(d)), warps_of_ranges(d)};
  cut.ranges = usual_ranges(d, runtime::processors());
  if (cut.ranges == 0) return cut;
  if (cut.warps == 1 && cut.ranges > kSmallCluster) {
    // Of such clusters other warps need not copy (32 over 8 x 1 of 4096 x 128, int8 on an H200: 9.7 us, 10.5
    // by four).
    const Cut cluster = with_merging(d, with_warps(d, cut, Copies::by_warps_of_rows));
    if (cluster.merging == Merging::in_cluster) return cluster;
  }
  return with_merging(d, with_warps(d, cut, Copies::by_all_warps));
}

std::vector<std::int32_t> ranges_of(const AttentionDesc& d, const Cut& cut) {
  constexpr std::int64_t kMost = 4;  // blocks of threads a processor
  const mma::Tile tile = mma::kTileTable[cut.tile];
  const mma::Tile least = mma::kTileTable[mma::tile_of_ranges(tile_of(d))];
  if (!may_have_ranges(d) || !kernels_for(d, cut).merges_ranges || !mma::may_have_ranges(tile) ||
      tile.head_dim != least.head_dim)
    return {};
  std::vector<std::int32_t> ranges;
  for (std::int64_t some = 1; some <= kMost; ++some)
    ranges.push_back(static_cast<std::int32_t>(even_ranges(d, cut.warps, some, runtime::processors())));
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  return ranges;
}

}  // namespace octet::cuda
