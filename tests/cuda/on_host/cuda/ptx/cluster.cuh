// cuda/ptx/cluster.cuh on the host: who arrives has not waited yet, and all wait for all.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"

namespace octet::cuda::ptx {

inline constexpr bool kHasClusters = true;

inline void arrive_at_cluster() {}
inline void wait_for_cluster() { on_host::wait_for_blocks_beside(); }

template <class T>
T load_of(std::uint32_t rank, std::uint32_t at) {
  T x;
  std::memcpy(&x, reinterpret_cast<const std::byte*>(on_host::dynamic_shared_of(rank)) + at, sizeof x);
  return x;
}
inline std::uint32_t load_word_of(std::uint32_t rank, std::uint32_t at) {
  return load_of<std::uint32_t>(rank, at);
}
inline float4 load_four_of(std::uint32_t rank, std::uint32_t at) { return load_of<float4>(rank, at); }
inline uint2 load_two_of(std::uint32_t rank, std::uint32_t at) { return load_of<uint2>(rank, at); }

}  // namespace octet::cuda::ptx
