#pragma once
#include <concepts>
#include <type_traits>

namespace octet {

/// a / b, rounded up; a >= 0, b > 0.
template <std::integral T>
constexpr T divided_up(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b;
}

}  // namespace octet
