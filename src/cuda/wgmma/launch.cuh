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
      // Rows that see as many keys take as long: then as many blocks of threads as there are processors share
      // them out.
      const bool alike = call.hides_keys == 0 && !call.queries.cu_seqlens;
      const std::int64_t all = std::int64_t{groups} * heads;
      dim3 blocks(static_cast<unsigned>(groups), static_cast<unsigned>(heads));
      if (SharedPlan<S, tile_of<S>(kIndex)>::kSharesOut)
        blocks = dim3(static_cast<unsigned>(alike ? std::min(all, runtime::processors()) : all));
      const dim3 threads((tile_of<S>(kIndex).warpgroups + 1) * kWarpgroup);
      return runtime::launch(kKernel, blocks, threads, kBytes, stream, call,
                             RowTiles{Divider(groups), heads});
    } else {
      return cudaErrorInvalidValue;
    }
  }
};

}  // namespace octet::cuda::wgmma
