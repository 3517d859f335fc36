// The lane of a thread (PTX ISA, special registers).
#pragma once

namespace octet::cuda::ptx {

/// Read anew: the compiler keeps what it makes of threadIdx, and not what it makes of this.
__device__ __forceinline__ int lane() {
  int number;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(number));
  return number;
}

}  // namespace octet::cuda::ptx
