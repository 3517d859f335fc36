// Calls whose rows are too few for the card: keys are cut into ranges, each computed by blocks of threads of
// its own as if it were all there is, and the ranges' outputs are merged by their LSEs (split-K, as in
// Dao et al., "Flash-Decoding for long-context inference", 2023). Rows of several heads of one token that
// share keys are computed together, as tokens of one head.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "octet/types.hpp"

namespace octet::cuda {

/// Whether a problem's keys may be cut, by a scheme whose rows can be merged: dense sequences whose rows all
/// see all keys, without a bias, and outputs of floats.
bool may_have_ranges(const AttentionDesc& desc);

/// The cut of a problem: rows of a head as the kernels see them, and key blocks.
struct RangeCut {
  std::int64_t heads = 0, rows = 0, batch = 0, dim = 0;
  std::int64_t blocks = 0;  ///< key blocks of a sequence
  std::int32_t range_blocks = 0;
  bool joins_heads = false;  ///< rows are the query heads of a key head

  RangeCut(const AttentionDesc& desc, std::int32_t range_blocks);
  std::int64_t ranges() const { return (blocks + range_blocks - 1) / range_blocks; }
  /// Of what ranges leave: outputs and LSEs in f32.
  std::int64_t bytes() const {
    return ranges() * batch * heads * rows * (dim + 1) * std::int64_t{sizeof(float)};
  }
};

/// The call of all ranges; rows_a_tile: of a block of threads. parts: cut.bytes(), aligned to 16.
Call call_of_ranges(Call call, const RangeCut& cut, std::int64_t key_block, std::int64_t rows_a_tile,
                    std::byte* parts);

/// The call's outputs and LSEs from those of its ranges. Asynchronous; a cudaError_t, 0 for success.
int merge_ranges(const Call& call, const RangeCut& cut, std::byte* parts, void* stream);

}  // namespace octet::cuda
