// cuda/ptx/relaxed.cuh on the host.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

// Who looks may look until another block has told.
inline std::uint32_t look(const std::uint32_t* at) {
  on_host::let_others_go();
  return *at;
}
inline uint4 look_at_four(const std::uint32_t* at) {
  on_host::let_others_go();
  return {at[0], at[1], at[2], at[3]};
}
inline void tell(std::uint32_t* at, std::uint32_t word) { *at = word; }
inline void tell(std::uint32_t* at, std::uint32_t first, std::uint32_t second) {
  at[0] = first, at[1] = second;
}

}  // namespace octet::cuda::ptx
