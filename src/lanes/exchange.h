// Lanes that look at each other: a stage of the Hadamard butterfly within a vector, and the largest lane.
#pragma once
#include <cstdint>
#include <utility>

#include "base/hd.h"
#include "lanes/native.h"
#include "lanes/pair.h"

namespace octet::simd {

/// Lane i holds x's lane i ^ kStride.
template <int kStride, class V, int... kLane>
OCTET_HD V exchanged(V x, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(x, x, (kLane ^ kStride)...);
}
template <int kStride, class V>
OCTET_HD V exchanged(V x) {
  return exchanged<kStride>(x, std::make_integer_sequence<int, kLanesOf<V>>{});
}

/// The sign bit in every lane whose number has the bit kStride.
template <int kStride, class V, int... kLane>
OCTET_HD auto upper_signs(std::integer_sequence<int, kLane...>) {
  return Like<std::uint32_t, V>{((kLane & kStride) ? kF32Sign : 0u)...};
}

/// (a, b) -> (a + b, a - b) for all lanes i without the bit kStride: a in lane i, b in lane i + kStride.
template <int kStride, class V>
OCTET_HD V butterfly(V x) {
  if constexpr (kIsPair<V>) {
    if constexpr (kStride == kWidthOf<V> / 2)
      return {x.lo + x.hi, x.lo - x.hi};
    else
      return {butterfly<kStride>(x.lo), butterfly<kStride>(x.hi)};
  } else {
    // a + b and b + a are the same bits, and so are a - b and a + (-b).
    using Bits = Like<std::uint32_t, V>;
    const auto signs = upper_signs<kStride, V>(std::make_integer_sequence<int, kLanesOf<V>>{});
    return exchanged<kStride>(x) + cast<V>(cast<Bits>(x) ^ signs);
  }
}

/// All stages within a vector: strides 1, 2, ... half of its lanes.
template <int kStride = 1, class V>
OCTET_HD V butterflies(V x) {
  if constexpr (kStride == kWidthOf<V>)
    return x;
  else
    return butterflies<2 * kStride>(butterfly<kStride>(x));
}

/// The largest lane of integers.
template <int kStride = 1, class V>
OCTET_HD Element<V> largest_lane_from(V x) {
  if constexpr (kStride == kLanesOf<V>)
    return x[0];
  else
    return largest_lane_from<2 * kStride>(MaxI32{}(x, exchanged<kStride>(x)));
}
template <class V>
OCTET_HD auto largest_lane(V x) {
  if constexpr (kIsPair<V>)
    return largest_lane(apply(MaxI32{}, x.lo, x.hi));
  else
    return largest_lane_from(x);
}

}  // namespace octet::simd
