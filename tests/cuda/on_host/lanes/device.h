// lanes/device.h on the host, whose exponential is nearer.
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>

#include "lanes/scalar.h"

namespace octet {

struct DeviceLane : ScalarLane {
  using Scalar = ScalarLane;
  static constexpr bool kPacksHalves = true, kWords = true;

  static float exp2(float x) { return x < -126 ? 0.0f : std::exp2(x); }

  /// Toward 0, saturated; 0 for NaN.
  static I32 truncate_i32(F32 a) {
    constexpr F32 kEnd = 0x1p31f;
    if (a >= kEnd) return std::numeric_limits<I32>::max();
    if (a <= -kEnd) return std::numeric_limits<I32>::min();
    return std::isnan(a) ? 0 : static_cast<I32>(a);
  }

  using U16 = std::uint32_t;
  static I32 widen_u16(U16 a) { return as_signed(a); }
  template <int kByte>
  struct InByte {
    U32 word;
  };
};

}  // namespace octet
