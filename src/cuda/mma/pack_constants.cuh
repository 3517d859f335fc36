// Constants of keys and key blocks alone, where the quantiser has written V as attention reads it and K is
// read as it is: a warp a key block, for this is little work.
#pragma once
#include <cstdint>
#include <type_traits>

#include "base/bits.h"
#include "cuda/attn/key_arrays.cuh"
#include "cuda/attn/operand.cuh"
#include "cuda/attn/scheme.cuh"
#include "cuda/attn/sequence.cuh"
#include "cuda/mma/tile.h"
#include "cuda/ptx/grid.cuh"
#include "cuda/tile/quad.cuh"
#include "lanes/scalar.h"

namespace octet::cuda::mma {

/// Whether a scheme's V may be packed before: s8 as the quantiser writes it.
template <class S>
inline constexpr bool kPacksConstantsAlone = attn::native_dtype(S::kV) == DType::s8 && !requires(const S& s) {
  s.value(1.0f);
};

template <class S>
class ConstantPacking {
 public:
  __device__ explicit ConstantPacking(const Call& call) : call_(call), scheme_(attn::scheme_of<S>(call)) {}

  /// Of dense sequences, whose key blocks are numbered one after the other. Addresses come before the wait
  /// for whoever wrote the scales.
  __device__ void run() const {
    const auto warps = static_cast<std::int32_t>(blockDim.x) / kLanes,
               thread = static_cast<std::int32_t>(threadIdx.x);
    const std::int32_t group = static_cast<std::int32_t>(blockIdx.x) * warps + thread / kLanes;
    if (group >= call_.packed.blocks_per_head) return ptx::wait_for_earlier_kernels();
    const std::int32_t lane = thread % kLanes, head = static_cast<std::int32_t>(blockIdx.y);
    const std::int32_t index = group / call_.keys.groups;
    const attn::Sequence keys = attn::sequence_at(call_.keys, index);
    const std::int32_t begin = (group - index * call_.keys.groups) * call_.key_block;
    const std::int32_t count = min(static_cast<std::int32_t>(call_.key_block), keys.length - begin);
    const attn::HeadOperand k(call_.k, call_.keys, keys, head), v(call_.v, call_.keys, keys, head);
    const bool in_p = v.template scales_in_p<S>();
    const float *of_block = k.has_scales() ? k.scale_at(begin, 0) : nullptr, *of_k[kOwn], *of_v[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const std::int32_t own = begin + min(lane + i * kLanes, count - 1);
      of_k[i] = k.has_scales() ? k.scale_at(own, 0) : nullptr;
      of_v[i] = in_p ? v.scale_at(own, 0) : nullptr;
    }
    ptx::wait_for_earlier_kernels();
    ptx::let_the_next_kernel_start();
    const auto read = [](const float* scale) { return scale ? *scale : 1.0f; };
    const float k_of_block = read(of_block);
    KeyScales<ScalarLane> scales[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) scales[i] = {read(of_k[i]), read(of_v[i])};

    const Block block = block_of(k_of_block, scales);
    const std::int64_t slot = std::int64_t{head} * call_.packed.blocks_per_head + group;
    if constexpr (!std::is_empty_v<Block>) {
      if (lane == 0) reinterpret_cast<Block*>(call_.packed.blocks)[slot] = block;
    }
    if constexpr (!std::is_empty_v<Key>) {
      auto* const to =
          reinterpret_cast<std::uint32_t*>(call_.packed.keys) + slot * attn::key_words<Key>() * kMostKeys;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const std::int32_t j = lane + i * kLanes;
        attn::put_key(to, kMostKeys, j, j < count ? scheme_.key(scales[i], block) : no_key());
      }
    }
  }

 private:
  using Key = typename S::Key;
  using Block = typename S::Block;
  static constexpr int kLanes = 32, kOwn = kMostKeys / kLanes;  // keys of a lane: lane, lane + 32, ...

  __device__ static Key no_key() {
    if constexpr (requires { S::no_key(); })
      return S::no_key();
    else
      return {};
  }
  /// Some schemes need the largest of V's scales in the block. note: they are not negative, so that their
  /// bits are in their order; `integer` is promised to compute with integers.
  __device__ Block block_of(float k_scale, const KeyScales<ScalarLane> (&scales)[kOwn]) const {
    if constexpr (requires(S s) { s.block(1.0f, 1.0f); }) {
      std::uint32_t largest = 0;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) largest = max(largest, bits_of(scales[i].v));
      return scheme_.block(k_scale, float_of(__reduce_max_sync(tile::kAllLanes, largest)));
    } else {
      return scheme_.block(k_scale);
    }
  }

  const Call& call_;
  const S scheme_;
};

}  // namespace octet::cuda::mma
