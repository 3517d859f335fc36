// How a call's tiles are shared out where full ones leave processors idle. Either the last heads have their
// keys cut into ranges (cuda/ranges.h), whose blocks of threads take what the others leave, or their query
// rows have smaller tiles (order.h), which all heads may have where full ones are fewer than processors.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/divided_up.h"
#include "cuda/wgmma/order.h"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

/// A call's tiles. Times are those of a full tile's key blocks.
struct Work {
  std::int64_t heads = 0;       ///< of all sequences
  std::int64_t rows = 0;        ///< of a head
  std::int64_t warpgroups = 0;  ///< of a full tile
  double key_blocks = 0;        ///< of a tile, where all have about as many
  std::int64_t keys = 0;        ///< that the last row sees, each row one more than that before it; 0: alike
  std::int64_t key_block = 1;   ///< keys of one
  std::int64_t most_with_ranges = 0;  ///< tiles times ranges whose outputs have room
  double merging = 0;                 ///< outputs of one tile
  std::int64_t processors = 0;
  double shortest = 1;  ///< of a full tile's key blocks, the time of next to no rows; 1: none is smaller

  std::int64_t rows_of_tile() const { return warpgroups * kRowsAWarpgroup; }
  std::int64_t tiles_of_head() const { return divided_up(rows, rows_of_tile()); }
  /// Of the time of a full tile's key blocks, that of so many rows', of as many warpgroups as these ask for.
  double part_of(std::int64_t of_tile) const {
    const double part =
        static_cast<double>(divided_up(of_tile, kRowsAWarpgroup)) / static_cast<double>(warpgroups);
    return shortest + (1 - shortest) * part;
  }
  /// That the query rows from `begin` to `end` see: the mean of their warpgroups'.
  double key_blocks_of(std::int64_t begin, std::int64_t end) const {
    if (keys == 0) return key_blocks;
    std::int64_t sum = 0;
    for (std::int64_t first = begin; first < end; first += kRowsAWarpgroup) {
      const std::int64_t behind = std::min(first + kRowsAWarpgroup, end);
      sum += divided_up(std::max<std::int64_t>(keys - (rows - behind), 0), key_block);
    }
    return static_cast<double>(sum) / static_cast<double>(divided_up(end - begin, kRowsAWarpgroup));
  }
};

/// What a tile takes beside its key blocks, whatever its rows, from times of int8 and f16 on an H200, where a
/// key block takes 1.8 us of 64 channels and 2.35 of 128 (docs/cuda-measurements.md).
inline constexpr double kBeginAndEnd = 2;

/// What the last `heads` of a call have: keys in so many ranges, or tiles of so many warpgroups' rows;
/// neither: what the others have. time: of the call; busy: the part of it that processors work, were full
/// tiles all they had.
struct Shares {
  std::int64_t heads = 0, ranges = 0, warpgroups = 0;
  double time = 0, busy = 0;
};

/// When processors are done that take the next tile whenever they are.
class Processors {
 public:
  explicit Processors(std::int64_t count) : groups_{{0.0, count}} {}
  /// So many tiles of a time each.
  void take(std::int64_t count, double time) {
    if (groups_.size() == 1) {
      groups_[0].end += static_cast<double>(count / groups_[0].count) * time;
      count %= groups_[0].count;
    }
    while (count > 0) {
      const auto first =
          std::ranges::min_element(groups_, [](const Group& a, const Group& b) { return a.end < b.end; });
      const std::int64_t some = std::min(count, first->count);
      const Group later{first->end + time, some};
      count -= some, first->count -= some;
      if (first->count == 0) groups_.erase(first);
      groups_.push_back(later);
    }
  }
  double end() const {
    double last = 0;
    for (const Group& group : groups_) last = std::max(last, group.end);
    return last;
  }

 private:
  struct Group {
    double end;
    std::int64_t count;  ///< processors that are done then
  };
  std::vector<Group> groups_;
};

/// The heads that end a call first, and how, if that is worth it. As many heads as fill some turns of all
/// processors have full tiles and no ranges.
class ShareOut {
 public:
  explicit ShareOut(const Work& work) : work_(work) {}

  Shares best() const {
    Processors processors(work_.processors);
    take_tiles(processors, work_.heads, {0, work_.rows}, work_.rows_of_tile());
    const Shares none{0, 0, 0, processors.end()};
    Shares best = none;
    const std::int64_t full_turns = work_.heads * work_.tiles_of_head() / work_.processors;
    if (static_cast<double>(full_turns) * kLeastPart > 1) return with_busy(best);  // no end is worth as much
    for (std::int64_t turns = full_turns; turns >= std::max<std::int64_t>(full_turns - 1, 0); --turns)
      choose_ranges(std::min(turns * work_.processors / work_.tiles_of_head(), work_.heads), best);
    if (none.time - best.time < std::max(kLeastGain, kLeastPart * none.time)) best = none;
    if (const Shares small = with_small_tiles();
        small.time < best.time && none.time - small.time >= kLeastPart * none.time)
      best = small;
    return with_busy(best);
  }

 private:
  // The same of ranges, whose outputs are f32; a second launch and merging.
  static constexpr double kBeginAndEndOfRange = 3, kMerging = 6;
  // What ranges have to gain, and, of the time without either, small tiles too.
  static constexpr double kLeastGain = 4, kLeastPart = 0.03;

  Shares with_busy(Shares shares) const {
    shares.busy = static_cast<double>(work_.heads * work_.rows) / static_cast<double>(work_.rows_of_tile()) *
                  work_.key_blocks / (static_cast<double>(work_.processors) * shares.time);
    return shares;
  }

  /// without: heads that have none.
  void choose_ranges(std::int64_t without, Shares& best) const {
    constexpr std::int64_t kMostRanges = 8;
    constexpr double kLeastBlocks = 4;
    const std::int64_t heads = work_.heads - without, tiles = heads * work_.tiles_of_head();
    for (std::int64_t ranges = 2; ranges <= kMostRanges; ++ranges) {
      const double blocks = std::ceil(work_.key_blocks / static_cast<double>(ranges));
      if (tiles == 0 || tiles * ranges > work_.most_with_ranges || blocks < kLeastBlocks) break;
      const double of_range =
          blocks * work_.part_of(std::min(work_.rows, work_.rows_of_tile())) + kBeginAndEndOfRange;
      Processors processors(work_.processors);
      processors.take(without * work_.tiles_of_head(), work_.key_blocks + kBeginAndEnd);
      processors.take(tiles * ranges, of_range);
      const double time = processors.end() + kMerging + static_cast<double>(tiles * ranges) * work_.merging;
      if (time < best.time) best = {heads, ranges, 0, time};
    }
  }

  /// The best of some; time infinite: there are none.
  Shares with_small_tiles() const {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    constexpr double kLess = 0.99;  // the first of those that take as long: more full tiles, smaller ones
    Shares best{0, 0, 0, kNone};
    if (work_.shortest == 1) return best;
    for (std::int64_t warpgroups = 1; warpgroups < work_.warpgroups; ++warpgroups) {
      const std::int64_t small = warpgroups * kRowsAWarpgroup;
      const std::int64_t of_head = full_tiles_before(work_.rows, work_.rows_of_tile(), small);
      const std::int64_t full_turns = work_.heads * of_head / work_.processors;
      for (std::int64_t turns = full_turns; turns >= std::max<std::int64_t>(full_turns - 1, 0); --turns) {
        const std::int64_t full = of_head > 0 ? std::min(turns * work_.processors / of_head, work_.heads) : 0;
        Processors processors(work_.processors);
        const std::int64_t behind = of_head * work_.rows_of_tile();
        take_tiles(processors, full, {0, behind}, work_.rows_of_tile());
        take_tiles(processors, work_.heads - full, {0, work_.rows}, small);
        take_tiles(processors, full, {behind, work_.rows}, small);
        if (full < work_.heads && processors.end() < kLess * best.time)
          best = {work_.heads - full, 0, warpgroups, processors.end()};
      }
    }
    return best;
  }
  /// Query rows of a head.
  struct Part {
    std::int64_t begin, end;
  };
  /// A part of so many heads, in tiles of so many rows: those of all that have the most keys come first.
  void take_tiles(Processors& processors, std::int64_t heads, const Part& part, std::int64_t rows) const {
    const auto take = [&](std::int64_t tiles, std::int64_t begin, std::int64_t end) {
      processors.take(heads * tiles,
                      work_.key_blocks_of(begin, end) * work_.part_of(end - begin) + kBeginAndEnd);
    };
    const std::int64_t full = (part.end - part.begin) / rows, left = (part.end - part.begin) % rows;
    if (work_.keys == 0) {
      if (full > 0) take(full, part.begin, part.begin + rows);
      if (left > 0) take(1, part.end - left, part.end);
      return;
    }
    for (std::int64_t end = part.end; end > part.begin; end -= rows)
      take(1, std::max(end - rows, part.begin), end);
  }

  const Work work_;
};

inline Shares shares_of(const Work& work) { return ShareOut(work).best(); }

}  // namespace octet::cuda::wgmma
