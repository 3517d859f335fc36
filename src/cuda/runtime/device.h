// The current CUDA device.
#pragma once
#include <cstdint>
#include <string>

namespace octet::cuda::runtime {

/// Why the current device computes nothing, or that there is none; empty: it does.
std::string refusal();

/// Bytes of shared memory that one block of threads may have.
std::int64_t shared_bytes();

/// Its multiprocessors.
std::int64_t processors();

}  // namespace octet::cuda::runtime
