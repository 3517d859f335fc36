// The lane of a thread, and the threads of its block (PTX ISA, special registers).
#pragma once

namespace octet::cuda::ptx {

/// Read anew: the compiler keeps what it makes of threadIdx, and not what it makes of this.
__device__ __forceinline__ int lane() {
  int number;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(number));
  return number;
}

/// blockDim.x, read anew: the compiler would keep it, and what is made of it, all through a loop.
__device__ __forceinline__ int threads_along_x() {
  int threads;
  asm volatile("mov.u32 %0, %%ntid.x;" : "=r"(threads));
  return threads;
}

}  // namespace octet::cuda::ptx
