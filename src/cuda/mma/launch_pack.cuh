// The launch of one scheme's packing.
#pragma once
#include <cuda_runtime.h>

#include "cuda/mma/launch.h"
#include "cuda/mma/pack.cuh"
#include "cuda/mma/with_tile.cuh"
#include "cuda/runtime/launch.cuh"

namespace octet::cuda::mma {

template <class S>
int launch_pack(const Call& call, int tile, const Grid& grid, void* stream) {
  return with_packed_tile(tile, [&]<int kIndex>() {
    const dim3 blocks(static_cast<unsigned>(grid.groups), static_cast<unsigned>(grid.heads));
    return runtime::launch(pack<S, kIndex>, blocks, pack_threads<S, kTileTable[kIndex]>(), 0, stream, call);
  });
}

}  // namespace octet::cuda::mma
