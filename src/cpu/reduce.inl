// All lanes of a vector to one number.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "lanes/native.h"

namespace octet::cpu {
namespace {

struct Larger {
  template <class V>
  V operator()(V a, V b) const {
    return a > b ? a : b;
  }
};
struct Smaller {
  template <class V>
  V operator()(V a, V b) const {
    return a < b ? a : b;
  }
};
struct Plus {
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
};

/// All lanes by one operation, halves with halves: a fixed order.
template <class V, class Op>
auto reduced(V lanes, const Op& op) {
  if constexpr (simd::kLanesOf<V> == 2)
    return op(lanes[0], lanes[1]);
  else
    return reduced(op(simd::low_half(lanes), simd::high_half(lanes)), op);
}

/// As many lanes as To has.
template <class To, class V>
To first_lanes(V lanes) {
  if constexpr (std::is_same_v<To, V>)
    return lanes;
  else
    return first_lanes<To>(simd::low_half(lanes));
}

/// Lane i of a where i lacks the bit kStride, else lane i - kStride of b, both moved on by kFrom lanes.
template <int kStride, int kFrom, class V, int... kLane>
V crossed(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int kLanes = sizeof...(kLane);
  return __builtin_shufflevector(a, b,
                                 ((kLane & kStride) ? kLanes + kLane - kStride + kFrom : kLane + kFrom)...);
}

/// All lanes of each of kRows vectors by one operation, row r's in lane r; lanes beyond the rows have any
/// number. Neighbours first: as many vectors are left after each stage as there are pairs of rows.
/// kParts: each part of a vector is a row's of its own, and has its numbers.
template <int kRows, int kStride = 1, int kParts = 1, class V, class Op>
V rows_reduced(const V* rows, const Op& op) {
  constexpr int kLanes = simd::kLanesOf<V>, kLeft = (kRows + 1) / 2;
  static_assert(kRows * kStride < 2 * kLanes / kParts, "a lane a row");
  constexpr auto kAll = std::make_integer_sequence<int, kLanes>{};
  V left[kLeft];
#pragma GCC unroll 16
  for (int i = 0; i < kLeft; ++i) {
    const V a = rows[2 * i], b = rows[2 * i + 1 < kRows ? 2 * i + 1 : 2 * i];
    left[i] = op(crossed<kStride, 0>(a, b, kAll), crossed<kStride, kStride>(a, b, kAll));
  }
  if constexpr (2 * kStride == kLanes / kParts)
    return left[0];
  else
    return rows_reduced<kLeft, 2 * kStride, kParts>(left, op);
}

}  // namespace
}  // namespace octet::cpu
