// cuda/ptx/with_carry.cuh on the host.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

inline std::uint32_t with_carry(std::uint32_t bits, std::uint32_t a, std::uint32_t b) {
  return bits << 1 | (a + b < a ? 1u : 0u);
}

}  // namespace octet::cuda::ptx
