// cuda/ptx/lane.cuh on the host.
#pragma once

namespace octet::cuda::ptx {

inline int lane() { return on_host::lane(); }
inline int threads_along_x() { return static_cast<int>(blockDim.x); }

}  // namespace octet::cuda::ptx
