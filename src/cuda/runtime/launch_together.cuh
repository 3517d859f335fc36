// Launches of kernels whose blocks of threads wait for each other.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace octet::cuda::runtime {

/// launch() with all blocks running beside each other; an error where the device has not the room. For code
/// of sm_90 and newer.
template <class... Given>
cudaError_t launch_together(void (*kernel)(Given...), dim3 blocks, dim3 threads, std::size_t shared_bytes,
                            void* stream, const std::type_identity_t<Given>&... given) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeCooperative;
  attributes[0].val.cooperative = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes, config.numAttrs = 2;
  return cudaLaunchKernelEx(&config, kernel, given...);
}

}  // namespace octet::cuda::runtime
