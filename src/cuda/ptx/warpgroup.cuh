// Four warps that multiply together: their registers, barriers of their own, and what orders their accesses
// to shared memory with those of the matrix units. sm_90a.
#pragma once
#include <cstdint>

#include "cuda/ptx/barrier.cuh"

namespace octet::cuda::ptx {

/// Registers of each of the warpgroup's threads from here on, a multiple of 8; by all its warps.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// sync_threads(), and whether something is true of any of them.
__device__ __forceinline__ bool any_of_threads(int barrier, int threads, bool is_true) {
  std::int32_t any;
  asm volatile(
      "{\n"
      ".reg .pred is_true, any;\n"
      "setp.ne.b32 is_true, %3, 0;\n"
      "barrier.cta.red.or.pred any, %1, %2, is_true;\n"
      "selp.b32 %0, 1, 0, any;\n"
      "}"
      : "=r"(any)
      : "r"(barrier), "r"(threads), "r"(static_cast<std::int32_t>(is_true))
      : "memory");
  return any != 0;
}

/// The same without waiting for the others.
__device__ __forceinline__ void arrive_at_threads(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// What this thread wrote to shared memory, cp.async included once it was waited for, is seen by the matrix
/// units of whoever synchronises with it afterwards.
__device__ __forceinline__ void show_to_matrix_units() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace octet::cuda::ptx
