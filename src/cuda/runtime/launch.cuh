// Launches of kernels that know when they may touch memory (ptx/grid.cuh).
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

#include "cuda/runtime/device.h"

namespace octet::cuda::runtime {

/// The kernel may begin while those before it on the stream still run: it calls wait_for_earlier_kernels()
/// before it touches memory. note: where it runs from PTX of an older architecture that call is not in it,
/// and it begins when they are done, as ever.
template <class... Given>
cudaError_t launch(void (*kernel)(Given...), dim3 blocks, dim3 threads, std::size_t shared_bytes,
                   void* stream, const std::type_identity_t<Given>&... given) {
  bool may = false;
  const auto asked = static_cast<cudaError_t>(may_overlap(reinterpret_cast<const void*>(kernel), &may));
  if (asked != cudaSuccess) return asked;
  cudaLaunchAttribute overlaps{};
  overlaps.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlaps.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &overlaps, config.numAttrs = may ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, given...);
}

/// The kernel begins when those before it on the stream are done.
template <class... Given>
cudaError_t launch_in_order(void (*kernel)(Given...), dim3 blocks, dim3 threads, void* stream,
                            const std::type_identity_t<Given>&... given) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks, config.blockDim = threads;
  config.stream = static_cast<cudaStream_t>(stream);
  return cudaLaunchKernelEx(&config, kernel, given...);
}

}  // namespace octet::cuda::runtime
