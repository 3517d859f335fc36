// Vectors wider than a register: a pair of halves, each a register or a pair again. Compilers do offer
// vectors of any width, but g++ 12 takes those that no register holds apart into single lanes at every
// select.
#pragma once
#include <type_traits>

#include "base/hd.h"

namespace octet::simd {

/// The widest register of the instruction set that this file is compiled for.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif

/// Half holds the lower half of the lanes in lo.
template <class Half>
struct Pair {
  Half lo, hi;
};

template <class T>
inline constexpr bool kIsPair = false;
template <class Half>
inline constexpr bool kIsPair<Pair<Half>> = true;

/// Halves; a plain number stands for all lanes.
template <class T>
OCTET_HD auto lo(const T& x) {
  if constexpr (kIsPair<T>)
    return x.lo;
  else
    return x;
}
template <class T>
OCTET_HD auto hi(const T& x) {
  if constexpr (kIsPair<T>)
    return x.hi;
  else
    return x;
}

/// op on each register of the operands, at least one of which has several.
template <class Op, class... T>
OCTET_HD auto apply(Op op, T... x) {
  if constexpr ((kIsPair<T> || ...)) {
    const auto low = apply(op, lo(x)...);
    return Pair<std::remove_const_t<decltype(low)>>{low, apply(op, hi(x)...)};
  } else {
    return op(x...);
  }
}

template <class A, class B>
concept AnyPair = kIsPair<A> || kIsPair<B>;

template <class Half>
OCTET_HD Pair<Half> pair_of(Half low, Half high) {
  return {low, high};
}

/// Shift amounts that are plain numbers become numbers of the lanes' type, which is what vectors take.
template <class V, class S>
OCTET_HD auto amount(const V& a, S s) {
  if constexpr (!std::is_arithmetic_v<S> || kIsPair<V>)
    return s;
  else
    return static_cast<std::remove_cvref_t<decltype(a[0])>>(s);
}

template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator+(A a, B b) { return pair_of(lo(a) + lo(b), hi(a) + hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator-(A a, B b) { return pair_of(lo(a) - lo(b), hi(a) - hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator*(A a, B b) { return pair_of(lo(a) * lo(b), hi(a) * hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator/(A a, B b) { return pair_of(lo(a) / lo(b), hi(a) / hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator&(A a, B b) { return pair_of(lo(a) & lo(b), hi(a) & hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator|(A a, B b) { return pair_of(lo(a) | lo(b), hi(a) | hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator^(A a, B b) { return pair_of(lo(a) ^ lo(b), hi(a) ^ hi(b)); }
template <class Half, class S>
OCTET_HD auto operator<<(Pair<Half> a, S s) {
  return pair_of(a.lo << amount(a.lo, lo(s)), a.hi << amount(a.hi, hi(s)));
}
template <class Half, class S>
OCTET_HD auto operator>>(Pair<Half> a, S s) {
  return pair_of(a.lo >> amount(a.lo, lo(s)), a.hi >> amount(a.hi, hi(s)));
}
template <class Half>
OCTET_HD Pair<Half> operator~(Pair<Half> a) {
  return {~a.lo, ~a.hi};
}
template <class Half>
OCTET_HD Pair<Half> operator-(Pair<Half> a) {
  return {-a.lo, -a.hi};
}
template <class Half, class B>
OCTET_HD Pair<Half>& operator+=(Pair<Half>& a, B b) {
  return a = a + b;
}

// Comparisons give a mask: all bits of a lane that holds.
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator<(A a, B b) { return pair_of(lo(a) < lo(b), hi(a) < hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator>(A a, B b) { return pair_of(lo(a) > lo(b), hi(a) > hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator<=(A a, B b) { return pair_of(lo(a) <= lo(b), hi(a) <= hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator>=(A a, B b) { return pair_of(lo(a) >= lo(b), hi(a) >= hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator==(A a, B b) { return pair_of(lo(a) == lo(b), hi(a) == hi(b)); }
template <class A, class B>
requires AnyPair<A, B> OCTET_HD auto operator!=(A a, B b) { return pair_of(lo(a) != lo(b), hi(a) != hi(b)); }

}  // namespace octet::simd
