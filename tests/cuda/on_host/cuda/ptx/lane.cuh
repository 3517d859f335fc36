// cuda/ptx/lane.cuh on the host.
#pragma once

namespace octet::cuda::ptx {

inline int lane() { return on_host::lane(); }

}  // namespace octet::cuda::ptx
