// Codes of P as the second product wants them: a lane's codes of two tiles of eight keys are neighbours in a
// word of operand A, by the order of keys and without shuffles.
#pragma once
#include <cstdint>

#include "base/bits.h"
#include "cuda/attn/hidden.cuh"
#include "cuda/attn/lane_rows.cuh"
#include "cuda/ptx/convert.cuh"
#include "lanes/device.h"
#include "numerics/contract.h"

namespace octet::cuda::attn {

/// Codes of P of a lane as words of operand A, in steps of 32 bytes of the summed axis; behind the last tile
/// zeros.
template <class S, int kTiles>
struct PWords {
  static constexpr int kBytes = bytes_of(S::kP);
  static constexpr int kSteps = (kTiles * 8 * kBytes + 31) / 32;
  std::uint32_t word[kSteps][4];

  __device__ __forceinline__ void end() {
#pragma unroll
    for (int i = kTiles * kBytes; i < 4 * kSteps; ++i) word[i / 4][i % 4] = 0;
  }

  /// Tiles i and i + 1: four codes of one byte a word, or two of two bytes.
  __device__ __forceinline__ void put(int i, const std::int32_t (&code)[2][4]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::uint32_t high = bytes(code[1][2 * r], code[1][2 * r + 1], 0);
      word[i / 4][(i % 4) + r] = bytes(code[0][2 * r], code[0][2 * r + 1], high);
    }
  }
  /// The same of codes in one of the bytes of words.
  template <int kByte>
  __device__ __forceinline__ void put(int i, const DeviceLane::InByte<kByte> (&code)[2][4]) {
    constexpr unsigned kPair = kByte | (kByte + 4) << 4, kLowHalves = 0x5410;
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      const std::uint32_t low = __byte_perm(code[0][2 * r].word, code[0][2 * r + 1].word, kPair);
      const std::uint32_t high = __byte_perm(code[1][2 * r].word, code[1][2 * r + 1].word, kPair);
      word[i / 4][(i % 4) + r] = __byte_perm(low, high, kLowHalves);
    }
  }
  __device__ __forceinline__ void put(int i, const float (&code)[2][4]) {
#pragma unroll
    for (int r = 0; r < kRowsALane; ++r) {
      if constexpr (S::kP == Operand::e4m3) {
        word[i / 4][(i % 4) + r] =
            ptx::e4m3_of(code[0][2 * r], code[0][2 * r + 1], code[1][2 * r], code[1][2 * r + 1]);
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          word[i / 2][half * 2 + r] = pair(code[half][2 * r], code[half][2 * r + 1]);
      }
    }
  }

  /// Codes of one byte of hidden keys become 0.
  __device__ __forceinline__ void hide(const Hidden& hidden) {
#pragma unroll
    for (int i = 0; i < kTiles; i += 2) {
      const auto bits = static_cast<std::uint32_t>(hidden.bits >> (4 * i));
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        // A bit a byte, in the order of the codes, and from 0 and 1 to bytes of zeros and ones.
        const std::uint32_t of_row = bits >> (2 * r);
        const std::uint32_t each =
            (of_row & 1) | (of_row & 2) << 7 | (of_row & 0x10) << 12 | (of_row & 0x20) << 19;
        word[i / 4][(i % 4) + r] &= ~(each * 0xffu);
      }
    }
  }
  /// Adds each row's codes of one byte to its sum.
  __device__ __forceinline__ void add_to(typename S::Sum (&sum)[kRowsALane]) const {
    constexpr int kOnes = 0x01010101;
#pragma unroll
    for (int i = 0; i < kTiles; i += 2) {
#pragma unroll
      for (int r = 0; r < kRowsALane; ++r) {
        const std::uint32_t codes = word[i / 4][(i % 4) + r];
        if constexpr (S::kP == Operand::s8)
          sum[r] = __dp4a(as_signed(codes), kOnes, sum[r]);
        else
          sum[r] += ptx::sum_of_e4m3(codes);
      }
    }
  }

 private:
  /// Two codes below the two lower bytes of `above`. Codes are in range, so nothing saturates.
  static __device__ __forceinline__ std::uint32_t bytes(std::int32_t low, std::int32_t high,
                                                        std::uint32_t above) {
    return S::kP == Operand::u8 ? ptx::u8_pair(low, high, above) : ptx::s8_pair(low, high, above);
  }
  /// Rounds codes that are not numbers of the format yet (DeviceLane::kPacksHalves).
  static __device__ __forceinline__ std::uint32_t pair(float low, float high) {
    return S::kP == Operand::f16 ? ptx::f16_pair(low, high) : ptx::bf16_pair(low, high);
  }
};

}  // namespace octet::cuda::attn
