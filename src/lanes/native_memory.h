// Loads, stores and single lanes of one register or a pair.
#pragma once
#include "lanes/native_register.h"
#include "lanes/pair.h"

namespace octet::simd {

template <class V>
inline constexpr int kWidthOf = kLanesOf<V>;
template <class Half>
inline constexpr int kWidthOf<Pair<Half>> = 2 * kWidthOf<Half>;

/// Register by register: g++ 12 copies a pair as a whole by way of the stack.
template <class V, class T>
OCTET_HD V load(const T* from) {
  if constexpr (kIsPair<V>) {
    using Half = decltype(V::lo);
    return {load<Half>(from), load<Half>(from + kWidthOf<Half>)};
  } else {
    V a;
    __builtin_memcpy(&a, from, sizeof a);
    return a;
  }
}
template <class V, class T>
OCTET_HD void store(T* to, V a) {
  if constexpr (kIsPair<V>) {
    store(to, a.lo);
    store(to + kWidthOf<V> / 2, a.hi);
  } else {
    __builtin_memcpy(to, &a, sizeof a);
  }
}

template <class V>
OCTET_HD auto lane_of(const V& a, int lane) {
  if constexpr (kIsPair<V>) {
    constexpr int kHalf = kWidthOf<V> / 2;
    return lane < kHalf ? lane_of(a.lo, lane) : lane_of(a.hi, lane - kHalf);
  } else {
    // note: a[lane] would copy a vector that lies in memory before it reads one lane.
    Element<V> x;
    __builtin_memcpy(&x, reinterpret_cast<const char*>(&a) + static_cast<std::size_t>(lane) * sizeof x,
                     sizeof x);
    return x;
  }
}

template <class V, class T>
OCTET_HD void set_lane(V& a, int lane, T x) {
  if constexpr (kIsPair<V>) {
    constexpr int kHalf = kWidthOf<V> / 2;
    if (lane < kHalf)
      set_lane(a.lo, lane, x);
    else
      set_lane(a.hi, lane - kHalf, x);
  } else {
    a[lane] = x;
  }
}

}  // namespace octet::simd
