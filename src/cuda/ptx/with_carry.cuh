// Comparisons gathered in a word.
#pragma once
#include <cstdint>

namespace octet::cuda::ptx {

/// `bits` one place up, and below them whether a + b carries out of 32 bits.
__device__ __forceinline__ std::uint32_t with_carry(std::uint32_t bits, std::uint32_t a, std::uint32_t b) {
  asm("{\n\t.reg .u32 sum;\n\t"
      "add.cc.u32 sum, %1, %2;\n\t"
      "addc.u32 %0, %0, %0;\n\t}"
      : "+r"(bits)
      : "r"(a), "r"(b));
  return bits;
}

}  // namespace octet::cuda::ptx
