// How many tiles of rows a block of threads takes one after the other against keys that stay.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/divided_up.h"

namespace octet::cuda::mma {

/// What a block of threads begins with, in tiles of rows against one key block (64 channels;
/// docs/cuda-measurements.md).
inline constexpr double kBeginOfCopies = 1.2;

/// A call's tiles of rows, of `heads` of all batch entries `tiles` each, against so many key blocks, and the
/// blocks of threads that a processor holds at once.
struct Turns {
  std::int64_t heads = 0, tiles = 0, key_blocks = 1, at_once = 1, processors = 1;
  double begin = kBeginOfCopies;
};

/// Of one, two, four ... and all tiles of a head the fastest. The more a block of threads has, the less often
/// one begins; but the fewer blocks there are, the more some processors have than others. Not so many that a
/// fifth of the blocks that fit are not there.
inline std::int64_t row_tiles_of_block(const Turns& of) {
  const double begin = of.begin / static_cast<double>(of.key_blocks);
  std::int64_t best = 1;
  double least = 0;
  for (std::int64_t some = 1;; some = std::min(2 * some, of.tiles)) {
    const std::int64_t blocks = of.heads * divided_up(of.tiles, some);
    if (some > 1 && 5 * blocks < 4 * of.at_once * of.processors) break;
    const double time =
        static_cast<double>(divided_up(blocks, of.processors)) * (static_cast<double>(some) + begin);
    if (some == 1 || time < least) least = time, best = some;
    if (some >= of.tiles) break;
  }
  return best;
}

/// The same where a block of threads has its part of a processor to itself until it ends: as many as fit go
/// at once, and those that are left as another wave. A processor that has one alone is done sooner.
inline std::int64_t row_tiles_by_waves(const Turns& of) {
  constexpr double kAlone = 0.7;  // of the time of a tile beside another block of threads
  std::int64_t best = 1;
  double least = 0;
  for (std::int64_t some = 1; some <= of.tiles; ++some) {
    const std::int64_t blocks = of.heads * divided_up(of.tiles, some);
    const double wave = (static_cast<double>(some) + of.begin) * (blocks <= of.processors ? kAlone : 1);
    const double time = static_cast<double>(divided_up(blocks, of.at_once * of.processors)) * wave;
    if (some == 1 || time < least) least = time, best = some;
  }
  return best;
}

}  // namespace octet::cuda::mma
