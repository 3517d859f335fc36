// The device that the host is, and what tests call of CUDA's runtime: device memory is memory.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#ifdef OCTET_HAS_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

#include "cuda/runtime/clusters.h"
#include "cuda/runtime/device.h"
#include "cuda/wgmma/launch.h"
#include "tests/cuda/device_memory.h"

namespace octet::cuda::runtime {

namespace {
constexpr std::int64_t kShared = 227 << 10, kReserved = 1 << 10;  // bytes a processor, as sm_90's has them
}

std::string refusal() { return {}; }
int number() { return 0; }
std::int64_t shared_bytes() { return kShared; }
// Few, so that what is chosen where there are many sequences a processor is chosen for small tensors.
std::int64_t processors() { return 2; }
bool is_hopper() { return true; }
bool multiplies_e4m3() { return true; }
bool launches_together() { return true; }
std::int64_t blocks_of(std::int64_t bytes) { return kShared / (bytes + kReserved); }
std::int64_t bytes_of_blocks(std::int64_t blocks) { return kShared / (blocks + 1); }
int may_overlap(const void*, bool* overlaps) {
  *overlaps = true;
  return cudaSuccess;
}

std::int64_t clusters_at_once(const ClusterShape&) { return processors(); }

}  // namespace octet::cuda::runtime

/// None of Hopper's own kernels, of which the host has no instruction.
const octet::cuda::wgmma::Kernels* octet::cuda::wgmma::kernels_of(Scheme, Form) { return nullptr; }

#ifdef OCTET_HAS_ADDRESS_SANITIZER
void octet::testing::set_margin(const std::byte* margin, Margin is) {
  if (is == Margin::is_forbidden)
    ASAN_POISON_MEMORY_REGION(margin, kMargin);
  else
    ASAN_UNPOISON_MEMORY_REGION(margin, kMargin);
}
#endif

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;  // cudaMalloc's
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return *memory || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); }
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  *free = *all = kBytes;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int byte, std::size_t bytes) {
  std::memset(to, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int byte, std::size_t bytes, cudaStream_t) {
  return cudaMemset(to, byte, bytes);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t pitch,
                         std::size_t width, std::size_t rows, cudaMemcpyKind) {
  for (std::size_t i = 0; i < rows; ++i)
    std::memcpy(static_cast<std::byte*>(to) + i * to_pitch, static_cast<const std::byte*>(from) + i * pitch,
                width);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "not on the host"; }

// Streams are in order anyway; of times and graphs there is nothing to see here.
cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaErrorNotSupported; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaErrorNotSupported; }
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t) { return cudaErrorNotSupported; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaErrorNotSupported; }
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  static char any;
  *stream = reinterpret_cast<cudaStream_t>(&any);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaErrorNotSupported; }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) {
  return cudaErrorNotSupported;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaErrorNotSupported; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaErrorNotSupported; }

}  // extern "C"
