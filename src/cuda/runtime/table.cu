#include "cuda/runtime/table.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>

#include "cuda/runtime/launch.cuh"

namespace octet::cuda::runtime {
namespace {

// A kernel's parameters hold 4 KiB on every driver.
struct Part {
  static constexpr int kMost = 960;
  float number[kMost];
  int count;
};

__global__ void put_part(const __grid_constant__ Part part, float* to) {
  for (int i = static_cast<int>(threadIdx.x); i < part.count; i += static_cast<int>(blockDim.x))
    to[i] = part.number[i];
}

}  // namespace

int put_table(const std::vector<float>& table, float* to, void* stream) {
  constexpr unsigned kThreads = 128;
  for (std::size_t at = 0; at < table.size(); at += Part::kMost) {
    Part part;
    part.count = static_cast<int>(std::min<std::size_t>(Part::kMost, table.size() - at));
    std::memcpy(part.number, table.data() + at, static_cast<std::size_t>(part.count) * sizeof(float));
    const cudaError_t error = launch_in_order(put_part, 1, kThreads, stream, part, to + at);
    if (error != cudaSuccess) return static_cast<int>(error);
  }
  return static_cast<int>(cudaSuccess);
}

}  // namespace octet::cuda::runtime
