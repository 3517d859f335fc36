// The launches of one scheme's kernels; a generated unit a scheme instantiates this.
#pragma once
#include <cuda_runtime.h>

#include <type_traits>

#include "cuda/mma/kernel.cuh"
#include "cuda/mma/launch.h"
#include "cuda/mma/pack_constants.cuh"
#include "cuda/mma/with_tile.cuh"
#include "cuda/runtime/allow.cuh"
#include "cuda/runtime/clusters.h"
#include "cuda/runtime/launch.cuh"
#include "cuda/runtime/launch_clusters.cuh"
#include "lanes/device.h"

namespace octet::cuda::mma {

/// What tiles a scheme has kernels for: none, those that compute all places, or also those that leave some
/// out or keep keys.
enum class Tiles : std::int32_t { none, whole, narrow_too };

template <class S, Tiles kTiles>
class Launches {
 public:
  static int attend(const Call& call, int tile, const Grid& grid, void* stream) {
    return with_tile(tile, [&]<int kIndex>() {
      if constexpr (has_tile<kIndex>()) {
        const auto bytes = static_cast<std::size_t>(grid.shared_bytes);
        const cudaError_t allowed = runtime::allow_shared_bytes(
            reinterpret_cast<const void*>(mma::attend<S, kIndex>), grid.shared_bytes);
        if (allowed != cudaSuccess) return allowed;
        const dim3 blocks(static_cast<unsigned>(grid.groups), static_cast<unsigned>(grid.heads),
                          static_cast<unsigned>(grid.ranges));
        const dim3 threads(static_cast<unsigned>(grid.warps) * 32, kTileTable[kIndex].key_parts);
        if (grid.ranges_are_cluster) {
          const dim3 cluster(1, 1, blocks.z);
          return runtime::launch_clusters(mma::attend<S, kIndex>, cluster, blocks, threads, bytes, stream,
                                          call);
        }
        return runtime::launch(mma::attend<S, kIndex>, blocks, threads, bytes, stream, call);
      } else {
        return cudaErrorInvalidValue;
      }
    });
  }

  static std::int64_t shared_bytes(int tile, std::int32_t warps) {
    std::int64_t bytes = 0;
    with_tile(tile, [&]<int kIndex>() {
      if constexpr (has_tile<kIndex>())
        bytes = static_cast<std::int64_t>(SharedPlan<S, kTileTable[kIndex]>::bytes(warps));
      return cudaSuccess;
    });
    return bytes;
  }

  static std::int64_t clusters(int tile, const Grid& grid) {
    std::int64_t clusters = 0;
    with_tile(tile, [&]<int kIndex>() {
      if constexpr (has_tile<kIndex>() && may_have_ranges(kTileTable[kIndex]))
        clusters =
            runtime::clusters_at_once({reinterpret_cast<const void*>(mma::attend<S, kIndex>), grid.ranges,
                                       grid.warps * 32 * kTileTable[kIndex].key_parts, grid.shared_bytes});
      return cudaSuccess;
    });
    return clusters;
  }

  static constexpr Kernels table(Launch pack) {
    static_assert(has_named_constants());
    Kernels k{};
    k.pack = pack, k.attend = attend, k.shared_bytes = shared_bytes, k.clusters = clusters;
    k.k_bytes = attn::Element<S::kQk>::kBytes, k.v_bytes = attn::Element<S::kV>::kBytes;
    k.key_bytes = std::is_empty_v<typename S::Key> ? 0 : sizeof(typename S::Key);
    k.block_bytes = std::is_empty_v<typename S::Block> ? 0 : sizeof(typename S::Block);
    k.channel_bytes = std::is_empty_v<typename S::Channel> ? 0 : sizeof(typename S::Channel);
    k.multiplies_e4m3 = S::kQk == Operand::e4m3 || S::kV == Operand::e4m3;
    k.carries_v = carries_v<S>(), k.merges_ranges = attn::MergesRanges<S>;
    k.takes_packed_v = kPacksConstantsAlone<S>;
    if constexpr (requires { S::kConstants; }) k.constants = S::kConstants;
    k.reads_rows_of_v = attn::kValuesByKeys<S> && !requires(const S& s) { s.value(1.0f); };
    k.k_dtype = attn::native_dtype(S::kQk), k.v_dtype = attn::native_dtype(S::kV);
    if constexpr (requires { &S::fill_table; })
      k.table_entries = S::table_entries, k.fill_table = S::fill_table;
    return k;
  }

 private:
  /// Whether constants are as large as their name says.
  static constexpr bool has_named_constants() {
    constexpr int kKey = attn::key_words<typename S::Key>();
    constexpr bool kHasBlock = !std::is_empty_v<typename S::Block>;
    if constexpr (requires { S::kConstants; }) {
      if (S::kConstants == Constants::of_own_scales) return !kHasBlock && kKey == (carries_v<S>() ? 3 : 1);
      if (S::kConstants == Constants::scale_of_block)
        return kKey == 0 && sizeof(typename S::Block) == sizeof(float);
    }
    return true;
  }
  template <int kIndex>
  static constexpr bool has_tile() {
    constexpr Tile kTile = kTileTable[kIndex];
    if (kTile.lone_blocks > 0 ? !attn::LongRows<S> : kTile.key_parts > 1 && !attn::MergesParts<S>)
      return false;
    if (kTile.kept_blocks > 0 && (attn::LongRows<S> || kTile.key_parts > 1)) return false;
    const bool has_all = kTile.computed == kTile.keys && kTile.kept_blocks == 0;
    return kTiles != Tiles::none && (has_all || kTiles == Tiles::narrow_too);
  }
};

}  // namespace octet::cuda::mma
