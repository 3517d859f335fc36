// Copies from global to shared memory that a thread does not wait for: rows are on their way while others are
// computed, and no register holds them meanwhile.
#pragma once
#include <cstdint>

namespace octet::cuda {

/// 16 bytes, both addresses aligned to that.
__device__ inline void copy_async(void* shared, const void* global) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

/// What was copied since the last commit is one group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Until at most kPending groups of this thread are on their way. The thread itself sees what has arrived.
template <int kPending>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace octet::cuda
