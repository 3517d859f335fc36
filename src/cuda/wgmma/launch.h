// What the host needs of one scheme's Hopper kernels.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/wgmma/order.h"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

/// What a launch computes: heads, each with so many tiles of query rows, of whole warpgroups; of packed
/// sequences, which are then not counted apart, full tiles of all of them.
struct Grid {
  HeadRows rows;
  std::int64_t tiles;
  std::int64_t with_small = 0, query_rows_of_small = 0;  ///< the last of the rows, which have small tiles
};

struct Kernels {
  /// Where call.has_ranges each tile has a block of threads a range. Asynchronous on the stream (a
  /// cudaStream_t); a cudaError_t, 0 for success.
  int (*attend)(const Call& call, int tile, const Grid& grid, void* stream);
  std::int32_t warpgroups[kTileCount];  ///< of a block of threads, each 64 query rows
  bool may_have_ranges[kTileCount];     ///< whether call.has_ranges may be
};

/// Null where the family has no kernels of the scheme in that form, or was not built. They take no bias.
const Kernels* kernels_of(Scheme scheme, Form form);

}  // namespace octet::cuda::wgmma
