// How a call's last tiles are shared out where they are too few for all processors. Either the last heads
// have their keys cut into ranges (cuda/ranges.h), whose blocks of threads take what the others leave, or
// their query rows have smaller tiles (order.h).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "cuda/wgmma/order.h"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

/// A call's tiles, each against as many keys. Times are those of a full tile's key blocks.
struct Work {
  std::int64_t heads = 0;             ///< of all sequences
  std::int64_t rows = 0;              ///< of a head
  std::int64_t warpgroups = 0;        ///< of a full tile
  double key_blocks = 0;              ///< of a tile
  std::int64_t most_with_ranges = 0;  ///< tiles times ranges whose outputs have room
  double merging = 0;                 ///< outputs of one tile
  std::int64_t processors = 0;
  double shortest = 1;  ///< of a full tile's time, what a tile of next to no rows takes; 1: none is smaller

  std::int64_t rows_of_tile() const { return warpgroups * kRowsAWarpgroup; }
  /// Of a full tile's time, what one of so many rows takes.
  double part_of(std::int64_t of_tile) const {
    const double part = static_cast<double>(of_tile) / static_cast<double>(rows_of_tile());
    return shortest + (1 - shortest) * part;
  }
};

/// What a tile takes beside its key blocks, from times of int8 and f16 on an H200, where a key block
/// takes 1.8 us of 64 channels and 2.35 of 128 (docs/cuda-measurements.md).
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
    processors.take(work_.heads * full_tiles(), tile());
    take_small(processors, work_.heads, left_rows(), work_.rows_of_tile());
    const Shares none{0, 0, 0, processors.end()};
    Shares best = none;
    const std::int64_t full_turns = work_.heads * tiles_of_head() / work_.processors;
    if (static_cast<double>(full_turns) * kLeastPart > 1) return with_busy(best);  // no end is worth as much
    for (std::int64_t turns = full_turns; turns >= std::max<std::int64_t>(full_turns - 1, 0); --turns)
      choose_ranges(std::min(turns * work_.processors / tiles_of_head(), work_.heads), best);
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

  std::int64_t full_tiles() const { return work_.rows / work_.rows_of_tile(); }
  std::int64_t left_rows() const { return work_.rows % work_.rows_of_tile(); }
  std::int64_t tiles_of_head() const { return full_tiles() + (left_rows() > 0 ? 1 : 0); }
  double tile() const { return work_.key_blocks + kBeginAndEnd; }
  Shares with_busy(Shares shares) const {
    shares.busy = static_cast<double>(work_.heads * work_.rows) / static_cast<double>(work_.rows_of_tile()) *
                  work_.key_blocks / (static_cast<double>(work_.processors) * shares.time);
    return shares;
  }

  /// without: heads that have none.
  void choose_ranges(std::int64_t without, Shares& best) const {
    constexpr std::int64_t kMostRanges = 8;
    constexpr double kLeastBlocks = 4;
    const std::int64_t heads = work_.heads - without, tiles = heads * tiles_of_head();
    for (std::int64_t ranges = 2; ranges <= kMostRanges; ++ranges) {
      const double blocks = std::ceil(work_.key_blocks / static_cast<double>(ranges));
      if (tiles == 0 || tiles * ranges > work_.most_with_ranges || blocks < kLeastBlocks) break;
      const double of_range =
          blocks * (full_tiles() == 0 ? work_.part_of(left_rows()) : 1.0) + kBeginAndEndOfRange;
      Processors processors(work_.processors);
      processors.take(without * tiles_of_head(), tile());
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
        processors.take(full * of_head, tile());
        take_small(processors, work_.heads - full, work_.rows, small);
        take_small(processors, full, work_.rows - of_head * work_.rows_of_tile(), small);
        if (full < work_.heads && processors.end() < kLess * best.time)
          best = {work_.heads - full, 0, warpgroups, processors.end()};
      }
    }
    return best;
  }
  /// Of so many heads `rows` each, in tiles of `small`.
  void take_small(Processors& processors, std::int64_t heads, std::int64_t rows, std::int64_t small) const {
    processors.take(heads * (rows / small), tile() * work_.part_of(small));
    if (rows % small > 0) processors.take(heads, tile() * work_.part_of(rows % small));
  }

  const Work work_;
};

inline Shares shares_of(const Work& work) { return ShareOut(work).best(); }

}  // namespace octet::cuda::wgmma
