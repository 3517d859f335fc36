#include "gpu/peak_kernel.h"

#include <cuda_runtime.h>

namespace octet::tool::gpu {
namespace {

constexpr int kTiles = 8;       // independent sums of a warp: enough that none waits for the last product
constexpr int kRounds = 16384;  // some 2 ms on an H200: launches do not count

__device__ void multiply(int (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <class Sum>
__global__ void __launch_bounds__(kPeakThreads) peak(int* sink) {
  // Bits of every kind, as codes have them: zeros would draw less power and run at a higher clock. As f16
  // they are numbers below 2 in size (the exponent's highest bit is 0).
  unsigned a[4], b[2];
  for (unsigned i = 0; i < 4; ++i) a[i] = (threadIdx.x * 2654435761u + i * 40503u) & 0xbfffbfffu;
  for (unsigned i = 0; i < 2; ++i) b[i] = (threadIdx.x * 2246822519u + i * 30011u) & 0xbfffbfffu;
  Sum c[kTiles][4] = {};
  for (int round = 0; round < kRounds; ++round)
    for (int tile = 0; tile < kTiles; ++tile) multiply(c[tile], a, b);
  Sum sum{};
  for (int tile = 0; tile < kTiles; ++tile) sum += c[tile][0] + c[tile][1] + c[tile][2] + c[tile][3];
  sink[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<int>(sum);
}

}  // namespace

int launch_peak(const PeakGrid& grid, void* sink, void* stream) {
  auto* kernel = grid.bytes ? peak<int> : peak<float>;
  kernel<<<static_cast<unsigned>(grid.blocks), kPeakThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<int*>(sink));
  return cudaGetLastError();
}

double peak_operations(const PeakGrid& grid) {
  const double tile = 2.0 * 16 * 8 * (grid.bytes ? 32 : 16);
  return tile * kTiles * kRounds * grid.blocks * (kPeakThreads / 32);
}

}  // namespace octet::tool::gpu
