// When the kernels of several operands' steps begin. Those of one operand need what the one before has
// written; those of others do not, and run beside it.
#pragma once
#include <cstdint>

#include "cuda/ptx/grid.cuh"

namespace octet::cuda {

/// What a kernel waits for before it begins.
enum class Begin : std::int32_t {
  after_all,   ///< every kernel before it on the stream
  beside_one,  ///< nothing: what it reads was there before the kernel that is before it, or the first of
               ///< several that stand beside each other, had waited for all before that
};

/// Of a kernel's threads from the first access to global memory to the end. Kernels let the next one start
/// when all of their blocks have begun, and an after_all one begins when all before it are done. So the first
/// beside_one kernel after it finds the same memory as it does, and so do others after that. One block of
/// theirs waits at its end: whoever waits for the kernel then waits for those beside it too.
class Begun {
 public:
  __device__ explicit Begun(const Begin& begin) : begin_(begin) {
    wait();
    ptx::let_the_next_kernel_start();
  }
  __device__ ~Begun() {
    if (begin_ == Begin::beside_one && blockIdx.x == 0) ptx::wait_for_earlier_kernels();
  }

 private:
  __device__ void wait() const {
    if (begin_ == Begin::after_all)
      ptx::wait_for_earlier_kernels();
    else
      __threadfence();  // what the processor's cache has from before is read anew
  }
  const Begin& begin_;
};

}  // namespace octet::cuda
