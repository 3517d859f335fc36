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

/// -1 in every lane whose number has the bit kStride, 1 in the others.
template <int kStride, class V, int... kLane>
OCTET_HD V upper_signs(std::integer_sequence<int, kLane...>) {
  return V{((kLane & kStride) ? -1.0f : 1.0f)...};
}

/// a + sign x, whose lanes are 1 or -1: one rounding either way. Where the set has fused multiply-adds that
/// is one operation, and one on other ports than those of shuffles and additions.
template <class V>
OCTET_HD V add_signed(V a, V sign, V x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64)
    return cast<V>(_mm512_fmadd_ps(cast<__m512>(x), cast<__m512>(sign), cast<__m512>(a)));
#endif
#if defined(__FMA__)
  if constexpr (sizeof(V) == 32)
    return cast<V>(_mm256_fmadd_ps(cast<__m256>(x), cast<__m256>(sign), cast<__m256>(a)));
#endif
  using Bits = Like<std::uint32_t, V>;
  return a + cast<V>(cast<Bits>(x) ^ (cast<Bits>(sign) & kF32Sign));
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
    const V signs = upper_signs<kStride, V>(std::make_integer_sequence<int, kLanesOf<V>>{});
    return add_signed(exchanged<kStride>(x), signs, x);
  }
}

/// All stages within each of the vectors: strides 1, 2, ... half of their lanes. A stage of all before the
/// next one of any, for each waits for the one before it.
template <int kStride = 1, class V, int kCount>
OCTET_HD void butterflies(V (&x)[kCount]) {
  if constexpr (kStride < kWidthOf<V>) {
    for (int i = 0; i < kCount; ++i) x[i] = butterfly<kStride>(x[i]);
    butterflies<2 * kStride>(x);
  }
}

/// The largest lane of integers: halves of a register while there are any, for they cost half as much.
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
  else if constexpr (sizeof(V) > 16)
    return largest_lane(MaxI32{}(low_half(x), high_half(x)));
  else
    return largest_lane_from(x);
}

// Half of what two vectors hold, the lower half for kPart 0: of every 16 bytes the integers in turns, or the
// pairs of them one behind the other; of every 32 bytes 16.
template <int kPart, class V, int... kLane>
OCTET_HD V integers_in_turns(V a, V b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b,
                                 (kLane / 4 * 4 + 2 * kPart + kLane % 4 / 2 + kLane % 2 * kLanesOf<V>)...);
}
template <int kPart, class V, int... kLane>
OCTET_HD V pairs_joined(V a, V b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b,
                                 (kLane / 4 * 4 + 2 * kPart + kLane % 2 + kLane % 4 / 2 * kLanesOf<V>)...);
}
template <int kPart, class V, int... kLane>
OCTET_HD V fours_joined(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int kFours = kLanesOf<V> / 8;  // of each vector
  return __builtin_shufflevector(
      a, b, ((2 * (kLane / 4 % kFours) + kPart) * 4 + kLane % 4 + kLane / 4 / kFours * kLanesOf<V>)...);
}

/// Lane i: the largest lane of x[i], of as many vectors of integers as each has lanes. Every step halves the
/// vectors, and costs two shuffles for two of them: within 16 bytes while the vectors are many, across at the
/// end, which takes Zen 5's multipliers. x is overwritten.
template <class V>
OCTET_HD V largest_lanes(V (&x)[kLanesOf<V>]) {
  constexpr auto kLanes = std::make_integer_sequence<int, kLanesOf<V>>{};
  constexpr int kFew = kLanesOf<V> / 4;
  for (int i = 0; i < 2 * kFew; ++i)
    x[i] = MaxI32{}(integers_in_turns<0>(x[2 * i], x[2 * i + 1], kLanes),
                    integers_in_turns<1>(x[2 * i], x[2 * i + 1], kLanes));
  for (int i = 0; i < kFew; ++i)
    x[i] = MaxI32{}(pairs_joined<0>(x[2 * i], x[2 * i + 1], kLanes),
                    pairs_joined<1>(x[2 * i], x[2 * i + 1], kLanes));
  for (int left = kFew / 2; left > 0; left /= 2)
    for (int i = 0; i < left; ++i)
      x[i] = MaxI32{}(fours_joined<0>(x[2 * i], x[2 * i + 1], kLanes),
                      fours_joined<1>(x[2 * i], x[2 * i + 1], kLanes));
  return x[0];
}

}  // namespace octet::simd
