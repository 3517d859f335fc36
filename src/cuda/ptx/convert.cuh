// The conversions and comparisons that GPUs have instructions for, with the results of numerics/formats.h; of
// a NaN only that it is one.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// code: the 16 bits of an f16.
__device__ inline float number_of_f16(std::uint32_t code) {
  float x;
  asm("{ .reg .f16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(x) : "h"(static_cast<std::uint16_t>(code)));
  return x;
}

__device__ inline std::uint32_t f16_code(float x) {
  std::uint16_t code;
  asm("{ .reg .f16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }" : "=h"(code) : "f"(x));
  return code;
}

/// Two numbers of bf16 as f16, in the same halves, rounded to nearest even.
__device__ __forceinline__ std::uint32_t f16_pair_of_bf16(std::uint32_t pair) {
  std::uint32_t word;
  asm("{ .reg .f32 low, high;\n"
      "shl.b32 %0, %1, 16; mov.b32 low, %0;\n"
      "and.b32 %0, %1, 0xffff0000; mov.b32 high, %0;\n"
      "cvt.rn.f16x2.f32 %0, high, low; }"
      : "=&r"(word)
      : "r"(pair));
  return word;
}

/// Two numbers as f16, or bf16, `low` in the lower half, rounded to nearest even.
__device__ __forceinline__ std::uint32_t f16_pair(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ __forceinline__ std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

/// Two integers as bytes, saturated, `low` in the lowest, and above them the two lower bytes of `above`. With
/// a conversion from f32 before it this is one instruction.
__device__ __forceinline__ std::uint32_t u8_pair(std::int32_t low, std::int32_t high, std::uint32_t above) {
  std::uint32_t word;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(high), "r"(low), "r"(above));
  return word;
}
__device__ __forceinline__ std::uint32_t s8_pair(std::int32_t low, std::int32_t high, std::uint32_t above) {
  std::uint32_t word;
  asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(high), "r"(low), "r"(above));
  return word;
}

/// Four numbers of e4m3 in a word, `a` in its lowest byte, rounded to nearest and at most 448. sm_89 and
/// newer.
__device__ __forceinline__ std::uint32_t e4m3_of(float a, float b, float c, float d) {
  std::uint32_t word;
  asm("{ .reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high}; }"
      : "=r"(word)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return word;
}
/// Their sum; of the first and third, and of the second and fourth, in halves. sm_89 and newer.
__device__ __forceinline__ float sum_of_e4m3(std::uint32_t word) {
  float a, b;
  asm("{ .reg .b16 low, high, even, odd;\n.reg .b32 first, second, both;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 first, low;\n"
      "cvt.rn.f16x2.e4m3x2 second, high;\n"
      "add.rn.f16x2 both, first, second;\n"
      "mov.b32 {even, odd}, both;\n"
      "cvt.f32.f16 %0, even;\n"
      "cvt.f32.f16 %1, odd; }"
      : "=f"(a), "=f"(b)
      : "r"(word));
  return a + b;
}

/// max(|a|, |b|), NaN where one is.
__device__ inline float larger_or_nan(float a, float b) {
  float most;
  asm("{ .reg .f32 x, y; abs.f32 x, %1; abs.f32 y, %2; max.NaN.f32 %0, x, y; }"
      : "=f"(most)
      : "f"(a), "f"(b));
  return most;
}

/// Four numbers as s8 in a word, the first one lowest: to the nearest integer, ties to even, and the nearest
/// code; NaN is 0.
__device__ inline std::uint32_t s8_codes(float x, float y, float z, float w) {
  std::uint32_t word;
  asm("{ .reg .s32 a, b, c, d, high;\n"
      "cvt.rni.s32.f32 a, %1; cvt.rni.s32.f32 b, %2; cvt.rni.s32.f32 c, %3; cvt.rni.s32.f32 d, %4;\n"
      "cvt.pack.sat.s8.s32.b32 high, d, c, 0;\n"
      "cvt.pack.sat.s8.s32.b32 %0, b, a, high; }"
      : "=r"(word)
      : "f"(x), "f"(y), "f"(z), "f"(w));
  return word;
}

}  // namespace octet::cuda::ptx
