// From a tile's number to a kernel's template argument.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#include "cuda/mma/tile.h"

namespace octet::cuda::mma {

template <class Body, int... kIndex>
int with_tile(int tile, const Body& body, std::integer_sequence<int, kIndex...>) {
  cudaError_t error = cudaErrorInvalidValue;
  (void)((tile == kIndex && (error = body.template operator()<kIndex>(), true)) || ...);
  return static_cast<int>(error);
}

/// body<index>() for the index into kTileTable that `tile` is; its cudaError_t.
template <class Body>
int with_tile(int tile, const Body& body) {
  return with_tile(tile, body, std::make_integer_sequence<int, kTileCount>{});
}
/// The same of tiles that keys are packed for.
template <class Body>
int with_packed_tile(int tile, const Body& body) {
  return with_tile(tile, body, std::make_integer_sequence<int, kPackedTiles>{});
}

}  // namespace octet::cuda::mma
