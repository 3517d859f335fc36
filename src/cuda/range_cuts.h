// Which calls by mma.sync have their keys cut in ranges (cuda/ranges.h), in how many, and who merges them.
#pragma once
#include <cstdint>
#include <vector>

#include "cuda/cuda.h"

namespace octet::cuda {

/// Ranges of the keys of a call that takes ranges by itself, 0 elsewhere. Where the tiles of all rows leave
/// half of the processors free, so many as give each two blocks of threads, of one warp and up to 64
/// channels four (docs/cuda-measurements.md). Less than four are not worth merging, unless heads are joined
/// for them, which more calls are where it leaves half of the tiles or less; packed ones, for their longest
/// sequences, wherever a row tile has all of one's rows, with outputs of up to RangeCut::kLongest times
/// kMostRangeRows (cuts.h).
std::int32_t usual_ranges(const AttentionDesc& desc, std::int64_t processors);

/// The cut in ranges of a call that takes these; ranges 0: it does not.
Cut range_cut(const AttentionDesc& desc);

/// Whether the current device runs the ranges of all of a cut's tiles of rows at once, those of each tile as
/// a cluster. Of packed sequences the host does not see how many there are.
bool runs_clusters(const AttentionDesc& desc, const Cut& cut);
/// The cut's ranges merged by whom it is faster.
Cut with_merging(const AttentionDesc& desc, Cut cut);

/// Ranges that a cut may have: that give each processor one block of threads to four.
std::vector<std::int32_t> ranges_of(const AttentionDesc& desc, const Cut& cut);

}  // namespace octet::cuda
