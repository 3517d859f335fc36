// What the host needs of one scheme's Hopper kernels.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/wgmma/tile.h"

namespace octet::cuda::wgmma {

struct Kernels {
  /// groups: tiles of query rows of all sequences. Asynchronous on the stream (a cudaStream_t); a
  /// cudaError_t, 0 for success.
  int (*attend)(const Call& call, int tile, std::int32_t groups, std::int32_t heads, void* stream);
  std::int32_t warpgroups[kTileCount];  ///< of a block of threads, each 64 query rows
};

/// Null where the family has no kernels of the scheme in that form, or was not built. They take no bias.
const Kernels* kernels_of(Scheme scheme, Form form);

}  // namespace octet::cuda::wgmma
