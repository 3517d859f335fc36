// Words of global memory that blocks of threads tell each other while they run: each word by itself comes
// whole, in no order with others (PTX ISA, "Memory consistency model": relaxed, of the GPU).
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

__device__ __forceinline__ std::uint32_t look(const std::uint32_t* at) {
  std::uint32_t word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(at) : "memory");
  return word;
}
/// at: a multiple of 16 bytes.
__device__ __forceinline__ uint4 look_at_four(const std::uint32_t* at) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at)
               : "memory");
  return v;
}
__device__ __forceinline__ void tell(std::uint32_t* at, std::uint32_t word) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(at), "r"(word) : "memory");
}
/// at: a multiple of 8 bytes.
__device__ __forceinline__ void tell(std::uint32_t* at, std::uint32_t first, std::uint32_t second) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(at), "r"(first), "r"(second) : "memory");
}

}  // namespace octet::cuda::ptx
