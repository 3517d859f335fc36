// What a kernel must be allowed before it is launched with it.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace octet::cuda::runtime {

/// Dynamic shared memory. note: less than what all kernels may have is not asked for, for the kernel's next
/// launch could then have no more than that.
inline cudaError_t allow_shared_bytes(const void* kernel, std::int64_t bytes) {
  constexpr std::int64_t kOfAll = 48 * 1024;
  if (bytes <= kOfAll) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// Clusters of so many blocks of threads, which not every device has.
inline cudaError_t allow_cluster(const void* kernel, std::int64_t blocks) {
  constexpr std::int64_t kOfAll = 8;
  if (blocks <= kOfAll) return cudaSuccess;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

}  // namespace octet::cuda::runtime
