// Threads of a block, numbered through: warps along x have rows of their own, those along y the same rows and
// a part of the keys.
#pragma once

namespace octet::cuda::tile {

/// blockDim.x, read anew: the compiler would keep it, and what is made of it, all through a loop.
__device__ __forceinline__ int threads_along_x() {
  int threads;
  asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(threads));
  return threads;
}

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
