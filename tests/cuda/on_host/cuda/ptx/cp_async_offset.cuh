// cuda/ptx/cp_async_offset.cuh on the host.
#pragma once
#include <cstdint>

#include "cuda/ptx/cp_async.cuh"

namespace octet::cuda::ptx {

template <int kOffset>
void copy_async_to(std::uint32_t to, const void* from) {
  copy_async(to + kOffset, from);
}

}  // namespace octet::cuda::ptx
