// cuda/ptx/barrier.cuh on the host.
#pragma once

namespace octet::cuda::ptx {

inline void sync_threads(int barrier, int threads) { on_host::wait_for_some(barrier, threads); }

}  // namespace octet::cuda::ptx
