// cuda/ptx/cp_async.cuh on the host, where copies are done at once.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"

namespace octet::cuda::ptx {

inline void copy_async(std::uint32_t to, const void* from) { std::memcpy(place_of(to), from, 16); }
inline void copy_word_async(std::uint32_t to, const void* from) { std::memcpy(place_of(to), from, 4); }
inline void copy_async_or_zeros(std::uint32_t to, const void* from, int bytes) {
  std::memset(place_of(to), 0, 16);
  std::memcpy(place_of(to), from, static_cast<std::size_t>(bytes));
}
inline void commit_copies() {}
template <int kGroups>
void wait_copies() {}

}  // namespace octet::cuda::ptx
