// Barriers of some of a block's warps (PTX ISA, "bar").
#pragma once

namespace octet::cuda::ptx {

/// A barrier of so many threads, whole warps; barrier 0 is __syncthreads'.
__device__ __forceinline__ void sync_threads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace octet::cuda::ptx
