// One register: the compiler's own vectors, their halves, and the instructions of the set that a file is
// compiled for.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/bits.h"
#include "lanes/pair.h"

#if defined(__SSE2__)
// note: g++ 12 warns where its own header has an operand that means nothing (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

namespace octet::simd {

/// A vector of the compiler: kBytes of T.
template <class T, int kBytes>
struct Register {
  typedef T Type __attribute__((vector_size(kBytes)));
};
template <class T, int kBytes>
using RegisterOf = typename Register<T, kBytes>::Type;

template <class V>
using Element = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
template <class V>
inline constexpr int kLanesOf = static_cast<int>(sizeof(V) / sizeof(Element<V>));
/// As many T as V has lanes.
template <class T, class V>
using Like = RegisterOf<T, kLanesOf<V>* static_cast<int>(sizeof(T))>;

/// x in all lanes of V. note: x - 0 and not x + 0, which is not x for -0.
template <class V>
OCTET_HD V fill(Element<V> x) {
  return x - V{};
}

template <class To, class V>
OCTET_HD To cast(V x) {
  return __builtin_bit_cast(To, x);
}

/// Lanes [kFrom, kFrom + half of them).
template <int kFrom, class V, int... kLane>
OCTET_HD auto take(V x, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(x, x, (kFrom + kLane)...);
}
template <class V>
OCTET_HD auto low_half(V x) {
  return take<0>(x, std::make_integer_sequence<int, kLanesOf<V> / 2>{});
}
template <class V>
OCTET_HD auto high_half(V x) {
#if defined(__AVX2__)
  if constexpr (sizeof(V) == 32)
    return cast<RegisterOf<Element<V>, 16>>(_mm256_extracti128_si256(cast<__m256i>(x), 1));
  else
#endif
    return take<kLanesOf<V> / 2>(x, std::make_integer_sequence<int, kLanesOf<V> / 2>{});
}
template <class V, int... kLane>
OCTET_HD auto join(V low, V high, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(low, high, kLane...);
}
/// One register where it holds both, else a pair.
template <class V>
OCTET_HD auto join(V low, V high) {
  if constexpr (kIsPair<V>) {
    return Pair<V>{low, high};
  } else if constexpr (2 * sizeof(V) > kRegisterBytes) {
    return Pair<V>{low, high};
  } else {
    return join(low, high, std::make_integer_sequence<int, 2 * kLanesOf<V>>{});
  }
}

struct Select {
  template <class M, class V>
  OCTET_HD V operator()(M mask, V yes, V no) const {
    return mask ? yes : no;
  }
};

/// In which lanes a comparison holds: bit i of lane i.
template <class V>
OCTET_HD std::uint32_t lanes_that(V mask) {
  if constexpr (kIsPair<V>)
    return lanes_that(mask.lo) | lanes_that(mask.hi) << kLanesOf<decltype(mask.lo)>;
  else
#if defined(__AVX512F__)
      if constexpr (sizeof(V) == 64)
    return _mm512_test_epi32_mask(cast<__m512i>(mask), cast<__m512i>(mask));
  else
#endif
#if defined(__AVX2__)
      if constexpr (sizeof(V) == 32)
    return static_cast<std::uint32_t>(_mm256_movemask_ps(cast<__m256>(mask)));
  else
#endif
  {
    std::uint32_t found = 0;
    for (int i = 0; i < kLanesOf<V>; ++i) found |= static_cast<std::uint32_t>(mask[i] != 0) << i;
    return found;
  }
}
/// Whether it holds in any.
template <class V>
OCTET_HD bool any(V mask) {
  return lanes_that(mask) != 0;
}

}  // namespace octet::simd
