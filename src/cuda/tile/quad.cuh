// Reductions over the four lanes that share a row of an accumulator fragment.
#pragma once
#include <cstdint>

namespace octet::cuda::tile {

inline constexpr unsigned kAllLanes = 0xffffffffu;

/// Each of x's words, of which structs have whole ones, through `exchange`.
template <class T, class Exchange>
__device__ __forceinline__ T word_by_word(const T& x, const Exchange& exchange) {
  static_assert(sizeof(T) % 4 == 0, "a value is exchanged word by word");
  struct Words {
    std::uint32_t word[sizeof(T) / 4];
  };
  Words words = __builtin_bit_cast(Words, x);
#pragma unroll
  for (auto& word : words.word) word = exchange(word);
  return __builtin_bit_cast(T, words);
}

/// x of the lane whose number differs in the bits of `mask`.
template <class T>
__device__ __forceinline__ T from_lane_across(const T& x, int mask) {
  return word_by_word(x, [&](std::uint32_t word) { return __shfl_xor_sync(kAllLanes, word, mask); });
}

/// x of the quad's lane number `lane`.
template <class T>
__device__ __forceinline__ T from_lane_of_quad(const T& x, int lane) {
  return word_by_word(x, [&](std::uint32_t word) { return __shfl_sync(kAllLanes, word, lane, 4); });
}

/// The four lanes' values joined by `join`, the same in all of them.
template <class T, class Join>
__device__ __forceinline__ T over_quad(T x, const Join& join) {
  x = join(x, from_lane_across(x, 1));
  return join(x, from_lane_across(x, 2));
}

/// The larger one; b where they cannot be compared.
struct Larger {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

}  // namespace octet::cuda::tile
