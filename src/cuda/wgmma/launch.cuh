// The launches of one scheme's kernels; a generated unit a scheme instantiates this.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.cuh"
#include "cuda/wgmma/attend.cuh"
#include "cuda/wgmma/launch.h"
#include "lanes/device.h"

namespace octet::cuda::wgmma {

template <class S>
class Launches {
  static_assert(std::is_empty_v<typename S::Bias>, "calls with a bias have other kernels");

 public:
  static int attend(const Call& call, int tile, std::int32_t groups, std::int32_t heads, void* stream) {
    return with_tile<0>(call, tile, groups, heads, stream);
  }
  static constexpr Kernels table() {
    Kernels kernels{attend, {}};
    for (int tile = 0; tile < kTileCount; ++tile) kernels.warpgroups[tile] = tile_of<S>(tile).warpgroups;
    return kernels;
  }

 private:
  template <int kIndex>
  static int with_tile(const Call& call, int tile, std::int32_t groups, std::int32_t heads, void* stream) {
    if constexpr (kIndex < kTileCount) {
      if (tile != kIndex) return with_tile<kIndex + 1>(call, tile, groups, heads, stream);
      constexpr auto kKernel = wgmma::attend<S, kIndex>;
      constexpr std::size_t kBytes = sizeof(SharedPlan<S, tile_of<S>(kIndex)>);
      static_assert(kBytes <= kSharedBytes, "a block of threads has its tiles");
      const cudaError_t error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(kBytes));
      if (error != cudaSuccess) return error;
      constexpr std::int32_t kRows = SharedPlan<S, tile_of<S>(kIndex)>::kRows;
      const std::int32_t all = groups * heads;
      // Rows that see as many keys take as long: then a head's last tile, where rows do not fill it, is
      // short, and as many blocks of threads as there are processors share tiles out.
      const bool alike = call.hides_keys == 0 && !call.queries.cu_seqlens;
      const bool has_short = alike && call.queries.groups > 1 && call.queries.tokens % kRows != 0;
      const RowTiles tiles{Divider(has_short ? call.queries.groups - 1 : groups), Divider(heads),
                           has_short ? call.queries.count : 1, all};
      std::int64_t blocks = all;
      if (SharedPlan<S, tile_of<S>(kIndex)>::kSharesOut && alike)
        blocks = std::min(blocks, runtime::processors());
      const dim3 threads((tile_of<S>(kIndex).warpgroups + 1) * kWarpgroup);
      return runtime::launch(kKernel, dim3(static_cast<unsigned>(blocks)), threads, kBytes, stream, call,
                             tiles);
    } else {
      return cudaErrorInvalidValue;
    }
  }
};

}  // namespace octet::cuda::wgmma
