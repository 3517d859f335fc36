// The launches of one scheme's kernels; a generated unit a scheme instantiates this.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.cuh"
#include "cuda/wgmma/attend.cuh"
#include "cuda/wgmma/launch.h"
#include "cuda/wgmma/order.h"
#include "lanes/device.h"

namespace octet::cuda::wgmma {

template <class S>
class Launches {
  static_assert(std::is_empty_v<typename S::Bias>, "calls with a bias have other kernels");

 public:
  static int attend(const Call& call, int tile, const Grid& grid, void* stream) {
    return with_tile<0>(call, tile, grid, stream);
  }
  static constexpr Kernels table() {
    Kernels kernels{attend, {}, {}};
    for (int i = 0; i < kTileCount; ++i) {
      kernels.warpgroups[i] = tile_of<S>(i).warpgroups;
      kernels.may_have_ranges[i] = may_have_ranges<S>(tile_of<S>(i));
    }
    return kernels;
  }

 private:
  template <int kIndex>
  static RowTiles order_of(const Call& call, const Grid& grid) {
    constexpr Tile kTile = tile_of<S>(kIndex);
    constexpr std::int64_t kCache = 16 << 20;   // bytes of keys in the second-level cache, of 50 MB
    constexpr std::int64_t kLeastTogether = 4;  // heads, whose longest tiles keep most processors busy
    if (call.queries.cu_seqlens) return row_after_row(grid.tiles, grid.rows);
    if (grid.with_small > 0)
      return small_ones_last(grid.rows, call.queries.tokens, grid.with_small, grid.query_rows_of_small);
    if (call.mask == Mask::causal && call.window_left < 0) {
      constexpr std::int64_t kKeyBytes = kTile.head_dim * (Element<S::kQk>::kBytes + Element<S::kV>::kBytes);
      const std::int64_t row_bytes =
          std::max<std::int64_t>(call.keys.tokens * kKeyBytes / call.group.divisor, 1);
      // All tiles at the same time: the call takes as long as its last ones, which end sooner where these are
      // the short ones (32 x 512 x 128 on an H200: int8 14.0 us, or 15.7 with full last tiles).
      const bool at_once = grid.tiles * grid.rows.count <= runtime::processors();
      const bool has_full_last = grid.tiles > 1 && !at_once;
      return longest_first(grid.tiles, grid.rows, std::max(kCache / row_bytes, kLeastTogether),
                           has_full_last ? grid.tiles * grid.rows.query_rows - call.queries.tokens : 0);
    }
    const bool has_short =
        call.hides_keys == 0 && grid.tiles > 1 && call.queries.tokens % grid.rows.query_rows != 0;
    return has_short ? short_ones_last(grid.tiles, grid.rows) : row_after_row(grid.tiles, grid.rows);
  }

  template <int kIndex>
  static int with_tile(const Call& call, int tile, const Grid& grid, void* stream) {
    if constexpr (kIndex < kTileCount) {
      if (tile != kIndex) return with_tile<kIndex + 1>(call, tile, grid, stream);
      constexpr auto kKernel = wgmma::attend<S, kIndex>;
      constexpr std::size_t kBytes = sizeof(SharedPlan<S, tile_of<S>(kIndex)>);
      static_assert(kBytes <= kSharedBytes, "a block of threads has its tiles");
      const cudaError_t error = cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(kBytes));
      if (error != cudaSuccess) return error;
      // Rows that see as many keys take as long: then as many blocks of threads as there are processors share
      // tiles out.
      const bool alike = call.hides_keys == 0 && !call.queries.cu_seqlens;
      const RowTiles tiles = order_of<kIndex>(call, grid);
      std::int64_t blocks = tiles.count;
      if (SharedPlan<S, tile_of<S>(kIndex)>::kSharesOut && alike)
        blocks = std::min(blocks, runtime::processors());
      const dim3 threads((tile_of<S>(kIndex).warpgroups + 1) * kWarpgroup);
      const unsigned ranges = call.has_ranges ? static_cast<unsigned>(std::int32_t{call.ranges.most}) : 1;
      return runtime::launch(kKernel, dim3(static_cast<unsigned>(blocks), 1, ranges), threads, kBytes, stream,
                             call, tiles);
    } else {
      return cudaErrorInvalidValue;
    }
  }
};

}  // namespace octet::cuda::wgmma
