// Kernels that begin while the ones before them on the stream still run (programmatic dependent launch, PTX
// ISA griddepcontrol; sm_90 and newer, elsewhere nothing): what a kernel does before it touches memory that
// others write then costs no time of its own.
#pragma once

namespace octet::cuda::ptx {

/// Before the kernel's first access to global memory: the kernels before it are done and what they wrote is
/// there. A kernel that was launched so must call it, in all of its blocks of threads.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The next kernel's blocks of threads may take the room that this one leaves, once all of this one's have
/// come here or are done.
__device__ __forceinline__ void let_the_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace octet::cuda::ptx
