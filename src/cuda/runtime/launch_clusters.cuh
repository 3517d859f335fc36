// Launches of kernels whose blocks of threads run in clusters (ptx/cluster.cuh).
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace octet::cuda::runtime {

/// launch() of code of sm_90 and newer, `blocks` of them in clusters of `cluster` neighbours.
template <class... Given>
cudaError_t launch_clusters(void (*kernel)(Given...), unsigned cluster, unsigned blocks, unsigned threads,
                            std::size_t shared_bytes, void* stream,
                            const std::type_identity_t<Given>&... given) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = cluster;
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks), config.blockDim = dim3(threads), config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes, config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, given...);
}

}  // namespace octet::cuda::runtime
