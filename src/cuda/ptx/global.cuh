// Global memory, and addresses there, as the compiler must not do it its own way.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// *from, not before and not after its neighbours: several loads in a row are on their way beside each other.
__device__ inline float load_now(const float* from) {
  float x;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(x) : "l"(from));
  return x;
}
__device__ inline std::uint32_t load_now(const std::uint32_t* from) {
  std::uint32_t x;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(from));
  return x;
}

/// `step` elements further. note: so that the compiler adds, which it takes for more than multiplying.
__device__ inline const std::uint16_t* further(const std::uint16_t* from, std::int64_t step) {
  asm volatile("add.s64 %0, %0, %1;" : "+l"(from) : "l"(step * 2));
  return from;
}

}  // namespace octet::cuda::ptx
