// DeviceLane: the scalar verbs on a GPU, where the device has an instruction for one. Its results are those
// of ScalarLane, but for exp2().
#pragma once
#include <cstdint>

#include "lanes/scalar.h"

namespace octet {

struct DeviceLane : ScalarLane {
  using Scalar = ScalarLane;

  /// Codes of P in 16 bits are rounded to nearest, ties to even, where they are packed.
  static constexpr bool kPacksHalves = true;

  /// 2^x within 2^-22, relatively; 0 below -126. Source: PTX ISA, ex2.approx.ftz.f32.
  static __device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  /// Nearest e4m3, ties to even, 448 at most; NaN stays.
  static __device__ __forceinline__ float nearest_e4m3(float x) {
    float nearest;
    asm("{\n.reg .b16 codes, low, high;\n.reg .b32 both;\n"
        "cvt.rn.satfinite.e4m3x2.f32 codes, %1, %1;\n"
        "cvt.rn.f16x2.e4m3x2 both, codes;\n"
        "mov.b32 {low, high}, both;\n"
        "cvt.f32.f16 %0, low;\n}"
        : "=f"(nearest)
        : "f"(x));
    return nearest;
  }
#endif

  /// A number of 16 bits has a word of its own, the upper half 0.
  static constexpr bool kWords = true;
  using U16 = std::uint32_t;
  static __device__ __forceinline__ I32 widen_u16(U16 a) { return as_signed(a); }

  /// A code in a word's byte kByte, the highest one or below, whatever the other bytes: kernels gather them.
  template <int kByte>
  struct InByte {
    U32 word;
  };

  static __device__ __forceinline__ U32 mulhi_u32(U32 a, U32 b) { return __umulhi(a, b); }
  static __device__ __forceinline__ U32 clz_u32(U32 a) { return static_cast<U32>(__clz(as_signed(a))); }
  // PTX's rule for amounts of 32 and more is the verbs'.
  static __device__ __forceinline__ I32 shl_i32(I32 a, U32 s) {
    I32 shifted;
    asm("shl.b32 %0, %1, %2;" : "=r"(shifted) : "r"(a), "r"(s));
    return shifted;
  }
  static __device__ __forceinline__ I32 sra_i32(I32 a, U32 s) {
    I32 shifted;
    asm("shr.s32 %0, %1, %2;" : "=r"(shifted) : "r"(a), "r"(s));
    return shifted;
  }
  static __device__ __forceinline__ U32 srl_u32(U32 a, U32 s) {
    U32 shifted;
    asm("shr.u32 %0, %1, %2;" : "=r"(shifted) : "r"(a), "r"(s));
    return shifted;
  }

  static __device__ __forceinline__ I32 low_word_down(I64 a, U32 s) {
    return as_signed(__funnelshift_rc(as_unsigned(low_word(a)), as_unsigned(high_word(a)), s));
  }
  static __device__ __forceinline__ I32 mulhi_i32(I32 a, I32 b) { return __mulhi(a, b); }

  /// Nearest even for |a| < 2^31. Two of them that go into bytes together are one instruction.
  static __device__ __forceinline__ std::int32_t nearest_i32(float a) { return __float2int_rn(a); }
  /// Toward 0, saturated; 0 for NaN.
  static __device__ __forceinline__ std::int32_t truncate_i32(float a) { return __float2int_rz(a); }
};

}  // namespace octet
