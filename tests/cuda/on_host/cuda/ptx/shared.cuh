// cuda/ptx/shared.cuh on the host.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"

namespace octet::cuda::ptx {

inline std::uint32_t load_shared_word(std::uint32_t at) { return load_shared<std::uint32_t>(at); }
inline std::uint32_t load_shared_half(std::uint32_t at) { return load_shared<std::uint16_t>(at); }
inline uint4 load_shared_16_bytes(std::uint32_t at) { return load_shared<uint4>(at); }
inline void store_shared_word(std::uint32_t at, std::uint32_t word) { store_shared(at, word); }
inline void store_shared_16_bytes(std::uint32_t at, const uint4& v) { store_shared(at, v); }

}  // namespace octet::cuda::ptx
