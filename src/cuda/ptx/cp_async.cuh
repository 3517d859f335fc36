// cp.async: copies from global to shared memory that the thread does not wait for.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"

namespace octet::cuda::ptx {

/// 16 bytes, both addresses multiples of 16; past the first-level cache, for no other block of the processor
/// reads them soon. Memory is read by whole lines of 128 bytes, as rows lie there
/// (docs/cuda-measurements.md).
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/// 4 bytes, both addresses multiples of 4.
__device__ __forceinline__ void copy_word_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/// Of the 16 bytes the first `bytes` are copied and the others become 0; of 0 bytes nothing is read.
__device__ __forceinline__ void copy_async_or_zeros(std::uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

/// Ends a group of copies.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most kGroups of the thread's groups are under way.
template <int kGroups>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace octet::cuda::ptx
