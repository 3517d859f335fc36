// The current CUDA device.
#pragma once
#include <cstdint>
#include <string>

namespace octet::cuda::runtime {

/// Why the current device computes nothing, or that there is none; empty: it does.
std::string refusal();

/// The current device's number; -1: there is none.
int number();

/// Bytes of shared memory that one block of threads may have.
std::int64_t shared_bytes();

/// Its multiprocessors.
std::int64_t processors();
/// Whether the current device runs code of sm_90a.
bool is_hopper();

/// Whether it multiplies e4m3: compute capability 8.9 and newer.
bool multiplies_e4m3();

/// Whether it can let all blocks of a kernel run beside each other.
bool launches_together();

/// How many blocks of threads of so much shared memory each fit a processor's.
std::int64_t blocks_of(std::int64_t shared_bytes);
/// The least shared memory of which no more than `blocks` fit.
std::int64_t bytes_of_blocks(std::int64_t blocks);

/// Whether a kernel may begin on the current device while the one before it on the stream still runs: not
/// where it is made from PTX of an architecture that cannot. Asked once a kernel. A cudaError_t.
int may_overlap(const void* kernel, bool* overlaps);

}  // namespace octet::cuda::runtime
