// cuda/ptx/ldmatrix.cuh on the host: addresses in shared memory are distances from the dynamic one's begin,
// of which static ones are not 2 GiB away.
#pragma once
#include <cstddef>
#include <cstdint>

namespace octet::cuda::ptx {

inline std::byte* place_of(std::uint32_t address) {
  return reinterpret_cast<std::byte*>(on_host::dynamic_shared()) + static_cast<std::int32_t>(address);
}
inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(at) - place_of(0));
}
template <class T>
T load_shared(std::uint32_t at) {
  T x;
  std::memcpy(&x, place_of(at), sizeof x);
  return x;
}
template <class T>
void store_shared(std::uint32_t at, const T& x) {
  std::memcpy(place_of(at), &x, sizeof x);
}

inline void load_matrices_turned(std::uint32_t (&words)[4], std::uint32_t address) {
  const auto column = static_cast<std::uint32_t>(on_host::lane() / 4 * 2);
  const int row = on_host::lane() % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    words[i] = on_host::joined(address, [&](const auto& rows) {
      const auto pair = [&](int r) { return load_shared<std::uint16_t>(rows(8 * i + r) + column); };
      return std::uint32_t{pair(row)} | std::uint32_t{pair(row + 1)} << 16;
    });
  }
}

}  // namespace octet::cuda::ptx
