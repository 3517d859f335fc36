// Launches of kernels whose blocks of threads run in clusters (ptx/cluster.cuh).
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/runtime/allow.cuh"

namespace octet::cuda::runtime {

/// launch() of code of sm_90 and newer, of blocks in clusters of `cluster` neighbours along each axis.
template <class... Given>
cudaError_t launch_clusters(void (*kernel)(Given...), dim3 cluster, dim3 blocks, dim3 threads,
                            std::size_t shared_bytes, void* stream,
                            const std::type_identity_t<Given>&... given) {
  const void* const code = reinterpret_cast<const void*>(kernel);
  const cudaError_t allowed = allow_cluster(code, std::int64_t{cluster.x} * cluster.y * cluster.z);
  if (allowed != cudaSuccess) return allowed;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster.x;
  attributes[0].val.clusterDim.y = cluster.y, attributes[0].val.clusterDim.z = cluster.z;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes, config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, given...);
}

}  // namespace octet::cuda::runtime
