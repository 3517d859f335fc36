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

inline void load_matrices(std::uint32_t (&words)[4], std::uint32_t address) {
  struct {
    std::uint32_t address, *words;
  } own{address, words};
  on_host::work_together(own, [](const auto& of) {
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i)
        of(lane).words[i] = load_shared<std::uint32_t>(of(8 * i + lane / 4).address +
                                                       static_cast<std::uint32_t>(lane % 4 * 4));
  });
}
inline void load_matrices_turned(std::uint32_t (&words)[4], std::uint32_t address) {
  struct {
    std::uint32_t address, *words;
  } own{address, words};
  on_host::work_together(own, [](const auto& of) {
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        const auto half = [&](int row) {
          return std::uint32_t{
              load_shared<std::uint16_t>(of(8 * i + row).address + static_cast<std::uint32_t>(lane / 4 * 2))};
        };
        of(lane).words[i] = half(lane % 4 * 2) | half(lane % 4 * 2 + 1) << 16;
      }
  });
}

}  // namespace octet::cuda::ptx
