// Every fused scheme's functions, compiled for the GPU and compared with the host bit for bit. Prints one
// line a scheme; where there is no GPU it says so and does nothing. The list of schemes is generated from
// cmake/instances.cmake.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

#include "fused_schemes.h"
#include "trace.h"

namespace octet::trace {
namespace {

constexpr int kRows = 4096;

template <class S>
__global__ void trace_rows(S scheme, std::uint32_t* words) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row < kRows)
    trace_row(scheme, static_cast<std::uint64_t>(row), words + static_cast<std::size_t>(row) * kWords);
}

Prepare made_up_call() {
  Prepare p;
  p.softmax_scale = 0.125f;
  p.head_dim = 64;
  p.key_block = kBlock;
  p.tokens_k = kBlock * kBlocks;
  p.q_scale = p.k_scale = 0.03f;
  p.v_scale = 0.03f;
  return p;
}

/// Words that differ between host and device, or -1 where the device failed.
template <class S>
long compare() {
  std::vector<float> table;
  Prepare prepare = made_up_call();
  float* device_table = nullptr;
  if constexpr (requires { &S::fill_table; }) {
    table.resize(static_cast<std::size_t>(S::table_entries(prepare.options)));
    S::fill_table(prepare.options, table.data());
    if (cudaMalloc(&device_table, table.size() * sizeof(float)) != cudaSuccess) return -1;
    cudaMemcpy(device_table, table.data(), table.size() * sizeof(float), cudaMemcpyHostToDevice);
  }
  std::vector<std::uint32_t> host(static_cast<std::size_t>(kRows) * kWords), device(host.size());
  prepare.table = table.data();
  const S scheme = S::prepare(prepare);
  for (int row = 0; row < kRows; ++row) {
    trace_row(scheme, static_cast<std::uint64_t>(row), host.data() + static_cast<std::size_t>(row) * kWords);
  }
  std::uint32_t* words = nullptr;
  if (cudaMalloc(&words, device.size() * sizeof(std::uint32_t)) != cudaSuccess) return -1;
  prepare.table = device_table;
  trace_rows<<<kRows / 128, 128>>>(S::prepare(prepare), words);
  const bool ran = cudaGetLastError() == cudaSuccess &&
                   cudaMemcpy(device.data(), words, device.size() * sizeof(std::uint32_t),
                              cudaMemcpyDeviceToHost) == cudaSuccess;
  cudaFree(words);
  cudaFree(device_table);
  if (!ran) return -1;
  long different = 0;
  for (std::size_t i = 0; i < host.size(); ++i) different += host[i] != device[i];
  return different;
}

int report(const char* scheme, long different) {
  std::printf("%-12s %ld of %d words differ between host and device\n", scheme, different, kRows * kWords);
  return different == 0 ? 0 : 1;
}

}  // namespace
}  // namespace octet::trace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("skipped: this machine has no CUDA device");
    return 0;
  }
  int failed = 0;
#define OCTET_FUSED_SCHEME(name, Template) \
  failed += octet::trace::report(#name, octet::trace::compare<octet::Template<octet::ScalarLane>>());
  OCTET_FUSED_SCHEMES
#undef OCTET_FUSED_SCHEME
  std::printf("%d schemes failed\n", failed);
  return failed != 0;
}
