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
  /// Nearest even for |a| < 2^31. Two of them that go into bytes together are one instruction.
  static __device__ __forceinline__ std::int32_t nearest_i32(float a) { return __float2int_rn(a); }
};

}  // namespace octet
