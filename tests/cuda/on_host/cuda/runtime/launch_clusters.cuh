// cuda/runtime/launch_clusters.cuh on the host, where no kernel has any (runtime::may_overlap).
#pragma once
#include <cstddef>
#include <type_traits>

namespace octet::cuda::runtime {

template <class... Given>
cudaError_t launch_clusters(void (*)(Given...), dim3, dim3, dim3, std::size_t, void*,
                            const std::type_identity_t<Given>&...) {
  return cudaErrorNotSupported;
}

}  // namespace octet::cuda::runtime
