// Values that the compiler must not make anew.
#pragma once
#include <cstdint>

namespace octet::cuda::tile {

/// The same number, of which the compiler does not know where it comes from: it keeps what a loop uses, where
/// it would compute it again in each turn to save a register.
__device__ __forceinline__ std::uint32_t kept(std::uint32_t word) {
  asm volatile("" : "+r"(word));
  return word;
}
__device__ __forceinline__ std::int32_t kept(std::int32_t word) {
  asm volatile("" : "+r"(word));
  return word;
}
__device__ __forceinline__ std::int64_t kept(std::int64_t word) {
  asm volatile("" : "+l"(word));
  return word;
}
template <class T>
__device__ __forceinline__ T* kept(T* at) {
  return reinterpret_cast<T*>(kept(reinterpret_cast<std::int64_t>(at)));
}

/// The same flag, of which the compiler does not know that a loop leaves it as it is: it would have a copy of
/// the loop for each value.
__device__ __forceinline__ bool opaque(bool flag) { return kept(static_cast<std::uint32_t>(flag)) != 0; }

/// A number that is the same in all lanes, of which the compiler is told: it lies in a register of the warp,
/// and so does what is made of it. All lanes are there. sm_80.
__device__ __forceinline__ std::uint32_t of_warp(std::uint32_t x) { return __reduce_max_sync(~0u, x); }
__device__ __forceinline__ std::int32_t of_warp(std::int32_t x) { return __reduce_max_sync(~0u, x); }

}  // namespace octet::cuda::tile
