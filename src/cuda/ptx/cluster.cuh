// Clusters of blocks of threads, which run beside each other and read each other's shared memory (PTX ISA
// barrier.cluster, mapa; sm_90 and newer, elsewhere nothing).
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// Whether the code that is compiled knows clusters.
#if __CUDA_ARCH__ >= 900
inline constexpr bool kHasClusters = true;
#else
inline constexpr bool kHasClusters = false;
#endif

/// What the thread has written in shared memory is there for all threads of the cluster that have waited for
/// it. All threads of a warp; a barrier is arrived at and then waited for.
__device__ __forceinline__ void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
/// Until all threads of the cluster have arrived.
__device__ __forceinline__ void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// The word that block `rank` of the cluster has at the address where this one has its own.
__device__ __forceinline__ std::uint32_t load_word_of(std::uint32_t rank, std::uint32_t at) {
  std::uint32_t word = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 there;\n"
      "mapa.shared::cluster.u32 there, %1, %2;\n"
      "ld.shared::cluster.u32 %0, [there];\n"
      "}"
      : "=r"(word)
      : "r"(at), "r"(rank)
      : "memory");
#endif
  return word;
}
/// Two such words; at: a multiple of 8.
__device__ __forceinline__ uint2 load_two_of(std::uint32_t rank, std::uint32_t at) {
  uint2 two{};
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 there;\n"
      "mapa.shared::cluster.u32 there, %2, %3;\n"
      "ld.shared::cluster.v2.u32 {%0, %1}, [there];\n"
      "}"
      : "=r"(two.x), "=r"(two.y)
      : "r"(at), "r"(rank)
      : "memory");
#endif
  return two;
}
/// Four such words; at: a multiple of 16.
__device__ __forceinline__ float4 load_four_of(std::uint32_t rank, std::uint32_t at) {
  float4 four{};
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .u32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}"
      : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
      : "r"(at), "r"(rank)
      : "memory");
#endif
  return four;
}

}  // namespace octet::cuda::ptx
