#include "cuda/runtime/memory.h"

#include <cuda_runtime.h>

#include <string>
#include <utility>

namespace octet::cuda::runtime {

void Free::operator()(std::byte* data) const { cudaFree(data); }

Result<Memory> take(std::int64_t bytes, const char* what) {
  void* data = nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  if (const cudaError_t error = cudaMalloc(&data, size); error != cudaSuccess) {
    cudaGetLastError();  // told here, not by the next launch
    return Status{Code::out_of_memory, std::string(what) + " needs " + std::to_string(bytes) +
                                           " bytes of device memory, but cudaMalloc says: " +
                                           cudaGetErrorString(error) + "; free some or ask for less"};
  }
  Memory memory(static_cast<std::byte*>(data));
  if (const cudaError_t error = cudaMemset(data, 0, size); error != cudaSuccess)
    return Status{Code::internal,
                  std::string(what) + " could not be set to zeros: " + cudaGetErrorString(error)};
  const Status waited = wait();
  if (!waited.ok()) return waited;
  return Result<Memory>(std::move(memory));
}

Status wait() {
  const cudaError_t error = cudaStreamSynchronize(nullptr);
  if (error == cudaSuccess) return {};
  return {Code::internal, std::string("the default stream failed: ") + cudaGetErrorString(error)};
}

}  // namespace octet::cuda::runtime
