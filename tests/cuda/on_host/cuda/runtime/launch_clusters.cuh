// cuda/runtime/launch_clusters.cuh on the host.
#pragma once
#include <cstddef>
#include <type_traits>

namespace octet::cuda::runtime {

template <class... Given>
cudaError_t launch_clusters(void (*kernel)(Given...), dim3 cluster, dim3 blocks, dim3 threads,
                            std::size_t shared_bytes, void*, const std::type_identity_t<Given>&... given) {
  on_host::launch(blocks, threads, shared_bytes, cluster, [&] { kernel(given...); });
  return cudaSuccess;
}

}  // namespace octet::cuda::runtime
