// cuda/ptx/grid.cuh on the host, where a kernel begins when those before it are done.
#pragma once

namespace octet::cuda::ptx {

inline void wait_for_earlier_kernels() {}
inline void let_the_next_kernel_start() {}

}  // namespace octet::cuda::ptx
