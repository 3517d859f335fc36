// What sums of a sequence's leaves and channels' norms are made of.
#pragma once
#include <cstdint>

#include "cuda/quant/rows.cuh"

namespace octet::cuda {

/// The first `count` of a, at most kMost, a power of two, added as a tree adds its leaves: neighbours, level
/// by level, an odd last one as it is.
template <int kMost>
__device__ float sum_of_few(float (&a)[kMost], int count) {
#pragma unroll
  for (int half = kMost / 2; half > 0; half /= 2) {
#pragma unroll
    for (int i = 0; i < half; ++i) a[i] = 2 * i + 1 < count ? a[2 * i] + a[2 * i + 1] : a[2 * i];
    count = (count + 1) / 2;
  }
  return a[0];
}
/// The same of term(i) for i in [0, count).
template <int kMost, class Term>
__device__ float sum_of_few(int count, const Term& term) {
  float a[kMost];
#pragma unroll
  for (int i = 0; i < kMost; ++i) a[i] = term(min(i, count - 1));  // no branch, so that loads stay together
  return sum_of_few(a, count);
}

/// The same where registers do not hold all terms, but kFew: of halves, one after the other.
template <int kMost, int kFew, class Term>
__device__ float sum_of_some(int count, const Term& term) {
  constexpr int kHalf = kMost / 2;
  if constexpr (kMost <= kFew) {
    return sum_of_few<kMost>(count, term);
  } else {
    const float left = sum_of_some<kHalf, kFew>(min(count, kHalf), term);
    if (count <= kHalf) return left;
    return left + sum_of_some<kHalf, kFew>(count - kHalf, [&](int i) { return term(kHalf + i); });
  }
}

/// The same of any number. Eight at once, so that their loads are on their way beside each other.
template <class Term>
__device__ float tree_sum(int count, const Term& term) {
  constexpr int kAtOnce = 8, kLevels = 28;
  float waiting[kLevels];  // [level]: a subtree of 8 * 2^level that waits for its right neighbour
  std::uint32_t occupied = 0;
  float sum = 0;
  for (int first = 0; first < count; first += kAtOnce) {
    sum = sum_of_few<kAtOnce>(min(kAtOnce, count - first), [&](int i) { return term(first + i); });
    if (first + kAtOnce >= count) break;  // the last subtree, which is the right one of all that wait
    int level = 0;
    for (; occupied >> level & 1; ++level) {
      sum = waiting[level] + sum;
      occupied &= ~(1u << level);
    }
    waiting[level] = sum;
    occupied |= 1u << level;
  }
  for (int level = 0; occupied >> level; ++level)
    if (occupied >> level & 1) sum = waiting[level] + sum;
  return sum;
}

/// The largest of one number of each thread of the first `warps` warps; of the block. `shared`: kWarp of
/// them.
__device__ inline std::int64_t largest_of_block(std::int64_t x, std::int64_t* shared, int warps) {
  for (int lane = 1; lane < kWarp; lane *= 2) x = max(x, __shfl_xor_sync(kAllLanes, x, lane));
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = shared[0];
  for (int i = 1; i < warps; ++i) x = max(x, shared[i]);
  return x;
}

}  // namespace octet::cuda
