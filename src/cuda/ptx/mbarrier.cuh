// mbarrier: barriers in shared memory that count arrivals, for buffers that some warps fill and others read.
// sm_80 and newer; waits that suspend the thread, sm_90.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// A phase of the barrier ends with so many arrivals. By one thread, before all others see it.
__device__ __forceinline__ void open_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// The same of some lanes of a warp, without a branch.
__device__ __forceinline__ void arrive_if(bool arrives, std::uint32_t barrier) {
  asm volatile(
      "{\n"
      ".reg .pred arrives;\n"
      "setp.ne.b32 arrives, %1, 0;\n"
      "@arrives mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}" ::"r"(barrier),
      "r"(static_cast<std::int32_t>(arrives))
      : "memory");
}
/// The same once all copies are there that this thread has started by cp.async.
__device__ __forceinline__ void arrive_with_copies(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}
/// Until the phase of that parity has ended. The phase before the first counts as one of parity 1 that has.
__device__ __forceinline__ void wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace octet::cuda::ptx
