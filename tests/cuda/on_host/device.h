// CUDA's language for the host's compiler: device code becomes code of the host, a block's threads take turns
// on one thread of the host, and so its results are the same each time. It is included before anything else
// (CMakeLists.txt), and the headers of cuda/ptx and cuda/runtime that lie beside it come before the
// library's.
//
// note: what it does not have is what races or overlaps: blocks of threads run one after the other, copies
// are done when they are asked for, and a thread goes on until it waits. compute-sanitizer and the GPU see to
// that. Nor has it the roundings of the matrix units and of the GPU's exponential.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#define __CUDA_ARCH__ 900
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __noinline__
#define __noinline__
#define __builtin_assume(condition) static_cast<void>(0)
#define OCTET_DYNAMIC_SHARED(name, alignment) uint4* const name = octet::on_host::dynamic_shared()

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

namespace octet::on_host {

/// Runs a kernel: `thread()` by each thread of each block, those of a cluster beside each other; such blocks
/// have no static shared memory.
void launch(dim3 blocks, dim3 threads, std::size_t shared_bytes, dim3 cluster,
            const std::function<void()>& thread);

/// Of the block that runs, or of another of those beside it; bytes that a kernel reads before it has written
/// them are NaN.
uint4* dynamic_shared();
uint4* dynamic_shared_of(unsigned rank);

/// Until all of the warp's, the block's, or the blocks', threads that have not ended wait.
void wait_for_warp();
void wait_for_block();
/// Of the block, so many threads.
void wait_for_some(int barrier, int threads);
void wait_for_blocks_beside();

/// The thread goes on when all others have had their turn.
void let_others_go();

/// What lanes show each other. Two of all, by turns: a lane may show the next word while others still read.
struct LaneWords {
  std::uint64_t of[2][32];
};
/// Of the warp; turn: counts what the thread has shown.
extern LaneWords* lane_words;
extern unsigned* lane_turn;

inline int lane() { return static_cast<int>(threadIdx.x % 32); }

/// join(x of all lanes), of the warp.
template <class T, class Join>
auto joined(T x, const Join& join) {
  static_assert(sizeof x <= sizeof(std::uint64_t));
  std::uint64_t* const words = lane_words->of[++*lane_turn % 2];
  std::memcpy(words + lane(), &x, sizeof x);
  wait_for_warp();
  return join([words](int of) {
    T other;
    std::memcpy(&other, words + of, sizeof other);
    return other;
  });
}

/// Of the two halves of words.
template <class Join>
unsigned joined_halves(unsigned a, unsigned b, const Join& join) {
  const auto half = [&](int shift) {
    return unsigned{static_cast<std::uint16_t>(
        join(static_cast<std::uint16_t>(a >> shift), static_cast<std::uint16_t>(b >> shift)))};
  };
  return half(0) | half(16) << 16;
}

/// How many of the block's threads say so; of the block.
int votes(bool vote);

/// Of the warp's lanes. The last that comes works for all, before any goes on.
extern void** lane_places;
bool is_last_of_warp();
/// work(of): of(lane) is the `own` of each; of the warp.
template <class T, class Work>
void work_together(T& own, const Work& work) {
  lane_places[lane()] = &own;
  if (is_last_of_warp()) work([](int lane) -> T& { return *static_cast<T*>(lane_places[lane]); });
  wait_for_warp();
}

}  // namespace octet::on_host

// CUDA C++ Programming Guide, "Warp Vote, Reduce and Shuffle Functions": all lanes take part in all of them.

inline void __syncwarp(unsigned = ~0u) { octet::on_host::wait_for_warp(); }
inline void __syncthreads() { octet::on_host::wait_for_block(); }
inline int __syncthreads_or(int vote) { return octet::on_host::votes(vote != 0) > 0; }
inline int __syncthreads_and(int vote) { return octet::on_host::votes(vote == 0) == 0; }
template <class T>
T __reduce_max_sync(unsigned, T x) {
  return octet::on_host::joined(x, [&](const auto& of) {
    T most = of(0);
    for (int i = 1; i < 32; ++i) most = std::max(most, of(i));
    return most;
  });
}
template <class T>
T __reduce_add_sync(unsigned, T x) {
  return octet::on_host::joined(x, [&](const auto& of) {
    T sum = of(0);
    for (int i = 1; i < 32; ++i) sum += of(i);
    return sum;
  });
}
inline int __any_sync(unsigned, int vote) {
  return octet::on_host::joined(vote, [](const auto& of) {
    bool any = false;
    for (int i = 0; i < 32; ++i) any |= of(i) != 0;
    return any;
  });
}
inline int __all_sync(unsigned, int vote) { return !__any_sync(~0u, !vote); }
template <class T>
T __shfl_sync(unsigned, T x, int from, int width = 32) {
  const int first = octet::on_host::lane() / width * width;
  return octet::on_host::joined(x, [&](const auto& of) { return of(first + from % width); });
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  return octet::on_host::joined(x, [&](const auto& of) { return of(octet::on_host::lane() ^ mask); });
}
template <class T>
T __shfl_up_sync(unsigned, T x, int by) {
  const int lane = octet::on_host::lane();
  return octet::on_host::joined(x, [&](const auto& of) { return of(lane >= by ? lane - by : lane); });
}
template <class T>
T __shfl_down_sync(unsigned, T x, int by) {
  const int lane = octet::on_host::lane();
  return octet::on_host::joined(x, [&](const auto& of) { return of(lane + by < 32 ? lane + by : lane); });
}

// The others that kernels call. CUDA Math API, "Integer Intrinsics", "SIMD Intrinsics", "Single Precision
// Intrinsics".

using std::max, std::min;
// Of what becomes an integer.
inline int min(int a, int b) { return std::min(a, b); }
inline int max(int a, int b) { return std::max(a, b); }
inline float __uint_as_float(unsigned x) {
  float number;
  std::memcpy(&number, &x, sizeof x);
  return number;
}
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}
inline float __fdividef(float a, float b) { return a / b; }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(std::int64_t{a} * b >> 32); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 4; ++i)
    sum += static_cast<std::int8_t>(a >> 8 * i) * static_cast<std::int8_t>(b >> 8 * i);
  return sum;
}
inline bool __isGlobal(const void*) { return true; }
template <class T>
T __ldg(const T* from) {
  return *from;
}
inline void __threadfence() {}
inline void __nanosleep(unsigned) { octet::on_host::let_others_go(); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned places) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned word = 0;
  for (int i = 0; i < 4; ++i) word |= (bytes >> (places >> 4 * i & 7) * 8 & 255) << 8 * i;
  return word;
}
inline unsigned __vmaxu2(unsigned a, unsigned b) {
  return octet::on_host::joined_halves(a, b, [](std::uint16_t x, std::uint16_t y) { return std::max(x, y); });
}
inline unsigned __vmins2(unsigned a, unsigned b) {
  return octet::on_host::joined_halves(a, b, [](std::uint16_t x, std::uint16_t y) {
    return std::min(static_cast<std::int16_t>(x), static_cast<std::int16_t>(y));
  });
}
inline unsigned __vcmpgeu2(unsigned a, unsigned b) {
  return octet::on_host::joined_halves(a, b,
                                       [](std::uint16_t x, std::uint16_t y) { return x >= y ? 0xffff : 0; });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> x) {
  const T before = *at;
  *at = std::max(before, x);
  return before;
}
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> x) {
  const T before = *at;
  *at = before + x;
  return before;
}

// The runtime's, as nvcc's headers have them of kernels.

template <class... Given>
cudaError_t cudaFuncSetAttribute(void (*)(Given...), cudaFuncAttribute, int) {
  return cudaSuccess;
}
/// As built for sm_90.
template <class... Given>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)(Given...)) {
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = __CUDA_ARCH__ / 10;
  return cudaSuccess;
}
