// When the kernels of several operands' steps begin. Those of one operand need what the one before has
// written; those of others do not, and run beside it.
#pragma once
#include <cstdint>

#include "cuda/ptx/grid.cuh"

namespace octet::cuda {

/// What a kernel waits for before it touches global memory.
enum class Begin : std::int32_t {
  after_all,   ///< every kernel before it on the stream
  beside_one,  ///< nothing: it needs what the last after_all kernel waited for, and no more
};

/// Of a kernel's threads, from the first access to global memory to the end. A kernel starts when all blocks
/// of the one before have begun, so have waited where that is after_all: a beside_one kernel behind it finds
/// the same memory as it does, and so does another behind that. One block of a beside_one kernel waits at its
/// end, so that whoever waits for the kernel waits for those that it stands beside too.
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
