// cuda/ptx/global.cuh on the host.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

template <class T>
T load_now(const T* from) {
  return *from;
}
inline const std::uint16_t* further(const std::uint16_t* from, std::int64_t step) { return from + step; }

}  // namespace octet::cuda::ptx
