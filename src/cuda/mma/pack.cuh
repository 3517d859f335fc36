// K and V as the attention kernels read them: constants of keys and key blocks, V dim-major in key order, and
// K padded where its rows cannot be read as they are. One block of threads a key block of a head.
#pragma once
#include <cstdint>
#include <type_traits>

#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/mma/tile.h"
#include "cuda/tile/key_order.h"
#include "lanes/scalar.h"

namespace octet::cuda::mma {

inline constexpr int kPackThreads = 128;

template <class S, Tile kTile>
class Packing {
 public:
  __device__ explicit Packing(const Call& call) : call_(call), scheme_(attn::scheme_of<S>(call)) {}

  __device__ void run() {
    const std::int32_t group = static_cast<std::int32_t>(blockIdx.x);
    const Divider size = call_.key_block;
    const std::int32_t index = attn::sequence_of_group(call_.keys, group, size);
    const attn::Sequence keys = attn::sequence_at(call_.keys, index);
    const std::int32_t begin = (group - attn::first_group_bound(call_.keys, index, size)) * size;
    if (begin >= keys.length) return;
    const std::int32_t head = static_cast<std::int32_t>(blockIdx.y);
    const std::int64_t slot = std::int64_t{head} * call_.packed.blocks_per_head + group;
    const std::int32_t count = min(size, keys.length - begin);
    const attn::HeadOperand k(call_.k, call_.keys, keys, head), v(call_.v, call_.keys, keys, head);
    put_constants(k, v, begin, count, slot);
    put_values(v, begin, count, slot);
    if (call_.packed.k) put_keys(k, begin, count, slot);
    if (call_.packed.channels) put_channels(v, begin, slot);
  }

 private:
  using Key = typename S::Key;
  using Block = typename S::Block;
  template <Operand kOperand>
  using ElementOf = typename attn::Element<kOperand>::Type;

  __device__ void put_constants(const attn::HeadOperand& k, const attn::HeadOperand& v, std::int32_t begin,
                                std::int32_t count, std::int64_t slot) {
    if constexpr (std::is_empty_v<Key> && std::is_empty_v<Block>) return;
    const bool in_p = v.template scales_in_p<S>();
    const Block block = block_of(k, v, begin, count, in_p);
    if constexpr (!std::is_empty_v<Block>) {
      if (threadIdx.x == 0) reinterpret_cast<Block*>(call_.packed.blocks)[slot] = block;
    }
    if constexpr (!std::is_empty_v<Key>) {
      using Keys = attn::KeyArrays<Key, kTile.keys>;
      std::uint32_t* words = reinterpret_cast<std::uint32_t*>(call_.packed.keys) + slot * (Keys::kBytes / 4);
      for (int j = static_cast<int>(threadIdx.x); j < kTile.keys; j += kPackThreads) {
        Key key{};
        if (j < count) {
          KeyScales<ScalarLane> scales;
          scales.k = k.token_scale(begin + j);
          scales.v = in_p ? v.token_scale(begin + j) : 1.0f;
          key = scheme_.key(scales, block);
        }
        Keys::put(words, j, key);
      }
    }
  }

  /// Some schemes need the largest of V's scales that P carries in the block.
  __device__ Block block_of(const attn::HeadOperand& k, const attn::HeadOperand& v, std::int32_t begin,
                            std::int32_t count, bool in_p) {
    const float k_scale = k.token_scale(begin);
    if constexpr (requires(S s) { s.block(1.0f, 1.0f); }) {
      float largest = in_p ? 0.0f : 1.0f;
      for (std::int32_t j = 0; in_p && j < count; ++j) largest = fmaxf(largest, v.token_scale(begin + j));
      return scheme_.block(k_scale, largest);
    } else {
      return scheme_.block(k_scale);
    }
  }

  /// A word of the tile's V is the slots 4 / kBytes w ... of one channel; threads beside each other have
  /// channels beside each other, which the tensor has together.
  __device__ void put_values(const attn::HeadOperand& v, std::int32_t begin, std::int32_t count,
                             std::int64_t slot) {
    constexpr int kBytes = attn::Element<S::kV>::kBytes, kSlots = 4 / kBytes, kRowWords = kTile.keys / kSlots;
    auto* to = reinterpret_cast<std::uint32_t*>(call_.packed.v) + slot * kTile.head_dim * kRowWords;
    for (int i = static_cast<int>(threadIdx.x); i < kTile.head_dim * kRowWords; i += kPackThreads) {
      const int channel = i % kTile.head_dim, word = i / kTile.head_dim;
      attn::Elements<S::kV, 4> element;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        const int key = tile::key_of_slot(word * kSlots + s, kBytes);
        const bool exists = key < count && channel < call_.dim_v;
        element.of[s] = exists ? element_of_value(v.number(begin + key, channel)) : ElementOf<S::kV>{};
      }
      to[channel * kRowWords + word] = __builtin_bit_cast(std::uint32_t, element);
    }
  }
  /// V's scales of the block by channel; those beyond V's, whose sums are zeros, have the last one's.
  __device__ void put_channels(const attn::HeadOperand& v, std::int32_t begin, std::int64_t slot) {
    using Channel = typename S::Channel;
    if constexpr (!std::is_empty_v<Channel>) {
      auto* channels = reinterpret_cast<Channel*>(call_.packed.channels) + slot * kTile.head_dim;
#pragma unroll 1
      for (int c = static_cast<int>(threadIdx.x); c < kTile.head_dim; c += kPackThreads)
        channels[c] = scheme_.channel({v.scale(begin, min(c, call_.dim_v - 1)), 0});
    }
  }
  __device__ ElementOf<S::kV> element_of_value(float number) const {
    if constexpr (requires { scheme_.value(1.0f); })
      return attn::element_of<S::kV>(scheme_.value(number));
    else
      return attn::element_of<S::kV>(number);
  }

  __device__ void put_keys(const attn::HeadOperand& k, std::int32_t begin, std::int32_t count,
                           std::int64_t slot) {
    constexpr int kBytes = attn::Element<S::kQk>::kBytes, kElements = 4 / kBytes;
    constexpr int kRowWords = kTile.head_dim / kElements;
    auto* to = reinterpret_cast<std::uint32_t*>(call_.packed.k) + slot * kTile.keys * kRowWords;
    for (int i = static_cast<int>(threadIdx.x); i < kTile.keys * kRowWords; i += kPackThreads) {
      const int word = i % kRowWords, key = i / kRowWords;
      attn::Elements<S::kQk, 4> element;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        const int channel = word * kElements + e;
        const bool exists = key < count && channel < k.operand().dim;
        element.of[e] =
            exists ? attn::element_of<S::kQk>(k.number(begin + key, channel)) : ElementOf<S::kQk>{};
      }
      to[i] = __builtin_bit_cast(std::uint32_t, element);
    }
  }

  const Call& call_;
  const S scheme_;
};

/// kIndex: of the tile. Eight blocks a processor leave 64 registers, of which 40 are used; asked for less,
/// the compiler stops at 32 and spills.
template <class S, int kIndex>
__global__ void __launch_bounds__(kPackThreads, 8) pack(const __grid_constant__ Call call) {
  Packing<S, kTileTable[kIndex]>(call).run();
}

}  // namespace octet::cuda::mma
