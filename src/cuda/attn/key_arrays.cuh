// Constants of a key block's keys as arrays, one a member: a lane reads a member of two keys at once.
#pragma once
#include <cstdint>
#include <type_traits>

namespace octet::cuda::attn {

/// What a lane needs at a time: its columns of a tile of eight keys are neighbours.
template <class Key>
struct KeyPair {
  Key of[2];
};

/// Words of a key's constants.
template <class Key>
constexpr int key_words() {
  static_assert(std::is_empty_v<Key> || sizeof(Key) % 4 == 0, "a member is a word");
  return std::is_empty_v<Key> ? 0 : static_cast<int>(sizeof(Key) / 4);
}

/// Constants of key j of a block of so many. words: the block's arrays one after the other.
template <class Key>
__device__ __forceinline__ void put_key(std::uint32_t* words, int keys, int j, const Key& key) {
  struct Words {
    std::uint32_t of[key_words<Key>()];
  };
  const Words of_key = __builtin_bit_cast(Words, key);
#pragma unroll
  for (int w = 0; w < key_words<Key>(); ++w) words[w * keys + j] = of_key.of[w];
}

/// kKeys: of a whole block, even. Members of Key are words (numerics/contract.h).
template <class Key, int kKeys>
struct KeyArrays {
  static constexpr int kWords = key_words<Key>();
  static constexpr int kBytes = kWords * kKeys * 4;

  /// first: of the two keys, even. words: the block's arrays one after the other.
  static __device__ __forceinline__ KeyPair<Key> pair(const std::uint32_t* words, int first) {
    if constexpr (kWords == 0) {
      return {};
    } else {
      struct Words {
        std::uint32_t of[2][kWords];
      } both;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        const uint2 two = *reinterpret_cast<const uint2*>(words + w * kKeys + first);
        both.of[0][w] = two.x, both.of[1][w] = two.y;
      }
      return __builtin_bit_cast(KeyPair<Key>, both);
    }
  }
};

}  // namespace octet::cuda::attn
