// The launch of one scheme's packing.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/mma/launch.h"
#include "cuda/mma/pack.cuh"
#include "cuda/mma/with_tile.cuh"
#include "cuda/runtime/launch.cuh"

namespace octet::cuda::mma {

template <class S>
int launch_pack(const Call& call, int tile, const Grid& grid, void* stream) {
  const AnyShape shape(kTileTable[tile], attn::Element<S::kV>::kBytes);
  const std::int32_t of_block =
      call.has_packed_v ? shape.threads / 32 : 1;  // key blocks of a block of threads
  const dim3 blocks(static_cast<unsigned>((grid.groups + of_block - 1) / of_block),
                    static_cast<unsigned>(grid.heads));
  const auto threads = static_cast<unsigned>(shape.threads);
  if (!packs_by_itself(tile)) return runtime::launch(pack_any<S>, blocks, threads, 0, stream, call, shape);
  return with_packed_tile(tile, [&]<int kIndex>() {
    if constexpr (packs_by_itself(kIndex))
      return runtime::launch(pack<S, kIndex>, blocks, threads, 0, stream, call);
    else
      return cudaErrorInvalidValue;
  });
}

}  // namespace octet::cuda::mma
