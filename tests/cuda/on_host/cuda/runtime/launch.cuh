// cuda/runtime/launch.cuh on the host: a launch is done when it returns.
#pragma once
#include <cstddef>
#include <type_traits>

#include "cuda/runtime/device.h"

namespace octet::cuda::runtime {

template <class... Given>
cudaError_t launch(void (*kernel)(Given...), dim3 blocks, dim3 threads, std::size_t shared_bytes, void*,
                   const std::type_identity_t<Given>&... given) {
  on_host::launch(blocks, threads, shared_bytes, dim3(1), [&] { kernel(given...); });
  return cudaSuccess;
}
template <class... Given>
cudaError_t launch_in_order(void (*kernel)(Given...), dim3 blocks, dim3 threads, void* stream,
                            const std::type_identity_t<Given>&... given) {
  return launch(kernel, blocks, threads, 0, stream, given...);
}

}  // namespace octet::cuda::runtime
