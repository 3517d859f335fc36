// cuda/ptx/store.cuh on the host.
#pragma once

namespace octet::cuda::ptx {

inline void store_16_bytes(void* to, const uint4& words) { std::memcpy(to, &words, sizeof words); }

}  // namespace octet::cuda::ptx
