// Calls whose rows are too few for the card: keys are cut into ranges, each computed by blocks of threads of
// its own as if it were all there is, and the ranges' outputs are merged by their LSEs (split-K, as in
// Dao et al., "Flash-Decoding for long-context inference", 2023). By mma.sync the query heads that share keys
// are computed together, each token's one after the other as rows of one head, so that keys are read once for
// all of them. By Hopper's kernels, whose tiles are few and long, those heads have ranges that would leave
// most processors without a tile at the end.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/cuda.h"
#include "octet/types.hpp"

namespace octet::cuda {

/// Whether a problem's keys may be cut, by a scheme whose outputs can be merged: floats.
bool may_have_ranges(const AttentionDesc& desc);

/// The cut of a problem's keys: the key blocks that some row of a sequence sees, by `most` or fewer ranges as
/// long as each other. Of packed sequences, whose lengths the host does not see, one of average length has a
/// part of these ranges, and one of so many times that all of them.
struct RangeCut {
  static constexpr std::int32_t kLongest = 4;  ///< a packed sequence of most ranges, in average ones

  std::int32_t most = 0, least_blocks = 1;
  std::int64_t tokens = 0;                 ///< of an entry of the batch axis
  std::int64_t heads = 0, joined = 1;      ///< of it, as a launch counts heads, and query heads of one
  std::int64_t first_head = 0, count = 0;  ///< heads with ranges, numbered entry by entry
  std::int64_t stride = 0;                 ///< KeyRanges::stride
  std::int64_t dim = 0;

  /// Of all heads, query heads that share keys joined.
  RangeCut(const AttentionDesc& desc, std::int32_t most);
  /// Of a cut whose ranges are not 0.
  RangeCut(const AttentionDesc& desc, const Cut& cut);

  std::int64_t rows() const { return tokens * joined; }  ///< of an entry's head
  /// Of what ranges leave: outputs and LSEs in f32.
  std::int64_t bytes() const { return most * count * rows() * bytes_of_row(dim); }
  static std::int64_t bytes_of_row(std::int64_t dim) { return (dim + 1) * std::int64_t{sizeof(float)}; }
};

/// Tokens of a sequence, of packed ones on average and rounded up; tokens: of the query or the key axis.
std::int64_t tokens_of_sequence(const AttentionDesc& desc, std::int64_t tokens);

/// Key blocks that the rows of a sequence of average length see together.
std::int64_t seen_blocks(const AttentionDesc& desc);

/// The call of all ranges, of heads numbered as the call numbers them; rows_a_tile: of a block of threads.
Call call_of_ranges(Call call, const RangeCut& cut, std::int64_t rows_a_tile);
/// The same whose ranges leave their outputs and LSEs for merge_ranges(). parts: cut.bytes(), aligned to 16.
Call into_parts(Call of_ranges, const RangeCut& cut, std::byte* parts);

/// The call's outputs and LSEs from those that into_parts() leaves. Asynchronous; a cudaError_t, 0 for
/// success.
int merge_ranges(const Call& call, const RangeCut& cut, std::byte* parts, void* stream);

}  // namespace octet::cuda
