// cuda/ptx/mbarrier.cuh on the host.
#pragma once
#include <cstdint>

#include "cuda/ptx/ldmatrix.cuh"

namespace octet::cuda::ptx {

struct Barrier {
  std::uint16_t arrivals, missing;  ///< of a phase; of this one
  std::uint32_t phase;
};

inline void open_barrier(std::uint32_t barrier, int arrivals) {
  const auto all = static_cast<std::uint16_t>(arrivals);
  store_shared(barrier, Barrier{all, all, 0});
}
inline void arrive(std::uint32_t barrier) {
  auto of = load_shared<Barrier>(barrier);
  if (--of.missing == 0) of.missing = of.arrivals, ++of.phase;
  store_shared(barrier, of);
}
inline void arrive_with_copies(std::uint32_t barrier) { arrive(barrier); }
inline void wait(std::uint32_t barrier, std::uint32_t parity) {
  while (load_shared<Barrier>(barrier).phase % 2 == parity) on_host::let_others_go();
}

}  // namespace octet::cuda::ptx
