#include "cuda/runtime/device.h"

#include <cuda_runtime.h>

#include <algorithm>

namespace octet::cuda::runtime {
namespace {

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) {
    cudaGetLastError();  // what failed here is told by the caller, not by the next launch
    return 0;
  }
  return value;
}

}  // namespace

std::string refusal() {
  constexpr int kLeastMajor = 8;  // mma.sync of 8-bit codes in this shape, cp.async: Ampere
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    cudaGetLastError();
    return std::string("this process finds no CUDA device (") +
           (error == cudaSuccess ? "there is none" : cudaGetErrorString(error)) + ")";
  }
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  if (major >= kLeastMajor) return {};
  return "the current CUDA device has compute capability " + std::to_string(major) + "." +
         std::to_string(attribute(cudaDevAttrComputeCapabilityMinor)) + "; 8.0 (Ampere) and newer is needed";
}

std::int64_t shared_bytes() { return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin); }
std::int64_t processors() { return attribute(cudaDevAttrMultiProcessorCount); }

bool is_hopper() {
  return attribute(cudaDevAttrComputeCapabilityMajor) == 9 &&
         attribute(cudaDevAttrComputeCapabilityMinor) == 0;
}

bool multiplies_e4m3() {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  return major > 8 || (major == 8 && attribute(cudaDevAttrComputeCapabilityMinor) >= 9);
}

bool launches_together() { return attribute(cudaDevAttrCooperativeLaunch) != 0; }

std::int64_t blocks_of(std::int64_t shared_bytes) {
  return attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) /
         (shared_bytes + attribute(cudaDevAttrReservedSharedMemoryPerBlock));
}
std::int64_t bytes_of_blocks(std::int64_t blocks) {
  const std::int64_t least = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / (blocks + 1) -
                             attribute(cudaDevAttrReservedSharedMemoryPerBlock) + 1;
  return std::clamp<std::int64_t>(least, 0, shared_bytes());
}

}  // namespace octet::cuda::runtime
