// mma.sync: D = A B + D of a warp, in the formats that attention's products have. sm_80 and newer.
//
// Fragments of a lane, g = lane / 4 and t = lane % 4 (PTX ISA, "Matrix fragments for mma.m16n8k32" and k16):
// A has rows g and g + 8 in its words 0 and 1, and again in 2 and 3, 16 bytes further along the summed axis;
// B has column g in words 0 and 1; of both a word is the 4 bytes from byte 4 t on. D has row g in its first
// two numbers and row g + 8 in the others, columns 2 t and 2 t + 1.
#pragma once
#include <cstdint>

#include "numerics/contract.h"

namespace octet::cuda::ptx {

/// sm_90 has no mma.sync of e4m3, and multiplies it as halves, which take twice the registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
inline constexpr bool kUnpacksE4m3 = true;
#else
inline constexpr bool kUnpacksE4m3 = false;
#endif

// clang-format off
#define OCTET_MMA(shape, formats, constraint, d, a, b)                                                  \
  asm("mma.sync.aligned." shape ".row.col." formats " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "    \
      "{%0, %1, %2, %3};"                                                                               \
      : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]), "+" constraint(d[3])          \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
// clang-format on

/// The operand A of format kA; B is of kB. Sums of codes are exact; those of halves are f32, rounded as the
/// matrix unit does it, and those of e4m3, sm_89 and newer, cut off below 13 bits of the largest number.
template <Operand kA, Operand kB>
__device__ __forceinline__ void multiply(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  static_assert(kB == Operand::s8 && (kA == Operand::s8 || kA == Operand::u8),
                "products of codes are s8 by s8 and u8 by s8");
  if constexpr (kA == Operand::u8)
    OCTET_MMA("m16n8k32", "s32.u8.s8.s32", "r", d, a, b);
  else
    OCTET_MMA("m16n8k32", "s32.s8.s8.s32", "r", d, a, b);
}

template <Operand kA, Operand kB>
__device__ __forceinline__ void multiply(float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  static_assert(kA == kB && (kA == Operand::f16 || kA == Operand::bf16 || kA == Operand::e4m3),
                "products of floats are of one format");
  if constexpr (kA == Operand::e4m3)
    OCTET_MMA("m16n8k32", "f32.e4m3.e4m3.f32", "f", d, a, b);
  else if constexpr (kA == Operand::f16)
    OCTET_MMA("m16n8k16", "f32.f16.f16.f32", "f", d, a, b);
  else
    OCTET_MMA("m16n8k16", "f32.bf16.bf16.f32", "f", d, a, b);
}

#undef OCTET_MMA

}  // namespace octet::cuda::ptx
