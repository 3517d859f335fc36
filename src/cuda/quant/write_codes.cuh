// Eight numbers of a thread as codes of any format, in memory.
#pragma once
#include <cstdint>

#include "cuda/quant/scaling.cuh"
#include "quant/codes.h"

namespace octet::cuda {

/// Eight codes of one thread as bytes in their order.
template <int kBytes>
struct Packed {
  std::uint32_t words[kBytes / 4];
};

template <int kBytes>
__device__ void store(const Coding& k, std::int64_t byte_offset, const Packed<kBytes>& packed, int bytes) {
  auto* to = static_cast<unsigned char*>(k.codes.data) + byte_offset;
  if (k.in_vectors && bytes == kBytes) {
    if constexpr (kBytes == 4) {
      *reinterpret_cast<std::uint32_t*>(to) = packed.words[0];
    } else if constexpr (kBytes == 8) {
      *reinterpret_cast<uint2*>(to) = {packed.words[0], packed.words[1]};
    } else {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i)
        reinterpret_cast<uint4*>(to)[i] = {packed.words[4 * i], packed.words[4 * i + 1],
                                           packed.words[4 * i + 2], packed.words[4 * i + 3]};
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kBytes; ++i)
    if (i < bytes) to[i] = static_cast<unsigned char>(packed.words[i / 4] >> (i % 4 * 8));
}

template <class Code>
__device__ Packed<8> packed_bytes(const float (&v)[kChannels], const Code& code) {
  Packed<8> p{};
#pragma unroll
  for (int i = 0; i < kChannels; ++i) p.words[i / 4] |= (code(v[i]) & 0xffu) << (i % 4 * 8);
  return p;
}

template <class Code>
__device__ Packed<16> packed_halves(const float (&v)[kChannels], const Code& code) {
  Packed<16> p{};
#pragma unroll
  for (int i = 0; i < kChannels; ++i) p.words[i / 2] |= (code(v[i]) & 0xffffu) << (i % 2 * 16);
  return p;
}

/// The lowest byte of each, a's lowest.
__device__ inline std::uint32_t four_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                           std::uint32_t d) {
  constexpr std::uint32_t kLowBytes = 0x0040, kLowHalves = 0x5410;
  return __byte_perm(__byte_perm(a, b, kLowBytes), __byte_perm(c, d, kLowBytes), kLowHalves);
}

/// Eight s8 codes of numbers below 127.5.
__device__ inline uint2 codes_in_words(const float* at) {
  std::uint32_t code[kChannels];
#pragma unroll
  for (int i = 0; i < kChannels; ++i) code[i] = bits_of(at[i] + quant::kRoundToInteger);
  return {four_bytes(code[0], code[1], code[2], code[3]), four_bytes(code[4], code[5], code[6], code[7])};
}

/// The same of any numbers.
__device__ inline uint2 clamped_codes_in_words(const float* at) {
  std::uint32_t code[kChannels];
#pragma unroll
  for (int i = 0; i < kChannels; ++i) code[i] = as_unsigned(quant::nearest_code(at[i], 127.0f));
  return {four_bytes(code[0], code[1], code[2], code[3]), four_bytes(code[4], code[5], code[6], code[7])};
}

__device__ inline uint4 f16_codes_in_words(const float* at) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = ptx::f16_code(at[2 * i]) | ptx::f16_code(at[2 * i + 1]) << 16;
  return {words[0], words[1], words[2], words[3]};
}

/// Eight e4m3 codes.
__device__ inline uint2 e4m3_codes_in_words(const float* at) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return {ptx::e4m3_of(at[0], at[1], at[2], at[3]), ptx::e4m3_of(at[4], at[5], at[6], at[7])};
#else
  std::uint32_t code[kChannels];
#pragma unroll
  for (int i = 0; i < kChannels; ++i) code[i] = e4m3_code_from_f32(at[i]);
  return {four_bytes(code[0], code[1], code[2], code[3]), four_bytes(code[4], code[5], code[6], code[7])};
#endif
}

/// Eight numbers, as a call takes them in registers.
struct Eight {
  float of[kChannels];

  __device__ explicit Eight(const float* at) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) of[i] = at[i];
  }
};

/// Eight codes of any format at element `offset` of the codes, `count` of which exist, from what the scale
/// has been taken off. note: called, for in each kernel that has it, and for each vector of a thread, it was
/// a quarter of what short sequences' take to compile (docs/cuda-measurements.md).
__device__ __noinline__ inline void write_vector(const Coding& k, std::int64_t offset, int count,
                                                 Eight numbers) {
  const float(&v)[kChannels] = numbers.of;
  count = min(count, kChannels);
  switch (k.codes.dtype) {
    case DType::s8:
      if (k.clamps)
        return store(k, offset,
                     packed_bytes(v, [](float x) { return as_unsigned(quant::nearest_code(x, 127.0f)); }),
                     count);
      return store(k, offset, packed_bytes(v, [](float x) { return bits_of(x + quant::kRoundToInteger); }),
                   count);
    case DType::s4: {
      Packed<4> p4{};
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        p4.words[0] |= (as_unsigned(quant::nearest_code(v[i], 7.0f)) & 0xfu) << (4 * i);
      if (count < kChannels) p4.words[0] &= (1u << (4 * count)) - 1;  // the last nibble of an odd dim is 0
      return store(k, offset / 2, p4, (count + 1) / 2);
    }
    case DType::e4m3: {
      const uint2 words = e4m3_codes_in_words(v);
      return store(k, offset, Packed<8>{{words.x, words.y}}, count);
    }
    case DType::e5m2:
      return store(k, offset, packed_bytes(v, [](float x) { return e5m2_code_from_f32(x); }), count);
    case DType::f16:
      return store(k, 2 * offset, packed_halves(v, [](float x) { return ptx::f16_code(x); }), 2 * count);
    case DType::bf16:
      return store(k, 2 * offset, packed_halves(v, [](float x) { return bf16_code_from_f32(x); }), 2 * count);
    case DType::f64: {
      double* to = static_cast<double*>(k.codes.data) + offset;
#pragma unroll
      for (int i = 0; i < kChannels; ++i)
        if (i < count) to[i] = static_cast<double>(v[i]);
      return;
    }
    default: {
      Packed<32> p32;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) p32.words[i] = bits_of(v[i]);
      return store(k, 4 * offset, p32, 4 * count);
    }
  }
}

}  // namespace octet::cuda
