// A store of 16 bytes to global memory.
#pragma once

namespace octet::cuda::ptx {

/// to: a multiple of 16. note: of words that were made one by one nvcc 13 makes four stores.
__device__ __forceinline__ void store_16_bytes(void* to, const uint4& words) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
}

}  // namespace octet::cuda::ptx
