// cp.async to an address and an offset that takes no register.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// copy_async() to kOffset bytes after `to`.
template <int kOffset>
__device__ __forceinline__ void copy_async_to(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0 + %2], [%1], 16;" ::"r"(to), "l"(from), "n"(kOffset)
               : "memory");
}

}  // namespace octet::cuda::ptx
