// Loads from shared memory and stores, at addresses in its own space: where these are words that are
// computed, the compiler does not find out what space they are in.
#pragma once
#include <cstdint>

/// Declares the block's dynamic shared memory, uint4 name[]. note: a macro, so that on the host it can be the
/// host's (tests/cuda/on_host).
#define OCTET_DYNAMIC_SHARED(name, alignment) \
  extern __shared__ __align__(alignment)      \
  uint4 name[]

namespace octet::cuda::ptx {

/// at: a multiple of 4, of what nothing writes meanwhile.
__device__ __forceinline__ std::uint32_t load_shared_word(std::uint32_t at) {
  std::uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at));
  return word;
}
/// Two bytes; at: a multiple of 2.
__device__ __forceinline__ std::uint32_t load_shared_half(std::uint32_t at) {
  std::uint16_t half;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(at));
  return half;
}
/// at: a multiple of 16.
__device__ __forceinline__ uint4 load_shared_16_bytes(std::uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

/// at: a multiple of 4.
__device__ __forceinline__ void store_shared_word(std::uint32_t at, std::uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}
/// at: a multiple of 16.
__device__ __forceinline__ void store_shared_16_bytes(std::uint32_t at, const uint4& v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

}  // namespace octet::cuda::ptx
