// Threads of a block, numbered through: warps along x have rows of their own, those along y the same rows and
// a part of the keys.
#pragma once
#include "cuda/ptx/lane.cuh"

namespace octet::cuda::tile {

template <int kKeyParts>
struct Threads {
  static __device__ __forceinline__ int number() {
    const int of_part = static_cast<int>(threadIdx.x);
    return kKeyParts == 1 ? of_part : static_cast<int>(threadIdx.y * blockDim.x) + of_part;
  }
  static __device__ __forceinline__ int count() { return static_cast<int>(blockDim.x) * kKeyParts; }
  /// The part of the keys that the thread's warp has.
  static __device__ __forceinline__ int part() { return kKeyParts == 1 ? 0 : static_cast<int>(threadIdx.y); }
};

}  // namespace octet::cuda::tile
