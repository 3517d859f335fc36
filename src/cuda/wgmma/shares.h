// How a call's last tiles are shared out: where they are too few for all processors, the last heads have
// their keys cut into ranges (cuda/ranges.h), whose blocks of threads take what the others leave.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace octet::cuda::wgmma {

/// A call's tiles, each against as many keys. Times are those of a full tile's key blocks.
struct Work {
  std::int64_t heads = 0;             ///< of all sequences
  std::int64_t tiles = 0;             ///< of a head: full ones,
  double short_part = 0;              ///< and of one more the part of rows that there are
  double key_blocks = 0;              ///< of a tile
  std::int64_t most_with_ranges = 0;  ///< tiles times ranges whose outputs have room
  double merging = 0;                 ///< outputs of one tile
  std::int64_t processors = 0;

  std::int64_t all_tiles() const { return tiles + (short_part > 0 ? 1 : 0); }
};

/// The last `heads` of a call, whose keys are cut into so many ranges; 0: none are. time: of the call; busy:
/// the part of it that processors work, were full tiles all they had.
struct Shares {
  std::int64_t heads = 0, ranges = 0;
  double time = 0, busy = 0;
};

/// Tiles that take as long as each other.
struct TilesOf {
  std::int64_t count;
  double time;
};
/// When processors are done that take `longer` tiles, and then `shorter` ones as they have no other.
inline double end_of(const TilesOf& longer, const TilesOf& shorter, std::int64_t processors) {
  const std::int64_t turns = longer.count / processors, late = longer.count % processors;
  const double begin = static_cast<double>(turns) * longer.time, end = late > 0 ? begin + longer.time : begin;
  if (shorter.count == 0) return end;
  for (std::int64_t turn = 1;; ++turn) {
    const double of_turn = static_cast<double>(turn) * shorter.time;
    const auto by_late = static_cast<std::int64_t>(std::max(of_turn - longer.time, 0.0) / shorter.time);
    if ((processors - late) * turn + late * by_late >= shorter.count) return std::max(end, begin + of_turn);
  }
}

/// The heads and ranges that end a call first, if that is worth it. As many heads as fill some turns of all
/// processors have no ranges.
inline Shares shares_of(const Work& work) {
  constexpr std::int64_t kMostRanges = 8;
  constexpr double kLeastBlocks = 4, kLeastGain = 4, kLeastPart = 0.03;
  // What a tile takes beside its key blocks, and one of ranges, whose outputs are f32; a second launch and
  // merging; a tile of next to no rows. From times of int8 and f16 on an H200, where a key block takes 1.8 us
  // of 64 channels and 2.35 of 128 (docs/cuda-measurements.md).
  constexpr double kBeginAndEnd = 2, kBeginAndEndOfRange = 3, kMerging = 6, kShortest = 0.4;
  const double of_short = kShortest + (1 - kShortest) * work.short_part;
  const double tile = work.key_blocks + kBeginAndEnd;
  const std::int64_t of_head = work.all_tiles(), short_tiles = of_head - work.tiles;
  Shares none;
  none.time =
      end_of({work.heads * work.tiles, tile}, {work.heads * short_tiles, tile * of_short}, work.processors);
  Shares best = none;
  const std::int64_t full_turns = work.heads * of_head / work.processors;
  for (std::int64_t turns = full_turns; turns >= std::max<std::int64_t>(full_turns - 1, 0); --turns) {
    const std::int64_t without = std::min(turns * work.processors / of_head, work.heads);
    const std::int64_t heads = work.heads - without, tiles = heads * of_head;
    for (std::int64_t ranges = 2; ranges <= kMostRanges; ++ranges) {
      const double blocks = std::ceil(work.key_blocks / static_cast<double>(ranges));
      if (tiles == 0 || tiles * ranges > work.most_with_ranges || blocks < kLeastBlocks) break;
      const double of_range = blocks * (work.tiles == 0 ? of_short : 1.0) + kBeginAndEndOfRange;
      const double time = end_of({without * of_head, tile}, {tiles * ranges, of_range}, work.processors) +
                          kMerging + static_cast<double>(tiles * ranges) * work.merging;
      if (time < best.time) best = {heads, ranges, time};
    }
  }
  if (none.time - best.time < std::max(kLeastGain, kLeastPart * none.time)) best = none;
  best.busy = static_cast<double>(work.heads) * (static_cast<double>(work.tiles) + work.short_part) *
              work.key_blocks / (static_cast<double>(work.processors) * best.time);
  return best;
}

}  // namespace octet::cuda::wgmma
