// cuda/runtime/launch_together.cuh on the host, where blocks run one after the other
// (runtime::launches_together).
#pragma once
#include <cstddef>
#include <type_traits>

namespace octet::cuda::runtime {

template <class... Given>
cudaError_t launch_together(void (*)(Given...), dim3, dim3, std::size_t, void*,
                            const std::type_identity_t<Given>&...) {
  return cudaErrorNotSupported;
}

}  // namespace octet::cuda::runtime
