// All lanes of a vector to one number.
#pragma once
#include <cstdint>
#include <type_traits>
#include <utility>

#include "base/hd.h"
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

/// Lanes of a and b by turns, from the lower (kHalf = 0) or upper half of each 16 bytes.
template <int kHalf, class V, int... kLane>
V unpacked(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int kLanes = sizeof...(kLane), kQuarter = 16 / static_cast<int>(sizeof(simd::Element<V>));
  return __builtin_shufflevector(
      a, b,
      (kLane % 2 * kLanes + kLane / kQuarter * kQuarter + (kHalf * kQuarter + kLane % kQuarter) / 2)...);
}
/// 16 bytes of a, then of b: every other one, from the first (kHalf = 0) or second on.
template <int kHalf, class V, int... kLane>
V every_other(V a, V b, std::integer_sequence<int, kLane...>) {
  constexpr int kQuarter = 16 / static_cast<int>(sizeof(simd::Element<V>));
  return __builtin_shufflevector(a, b, ((2 * (kLane / kQuarter) + kHalf) * kQuarter + kLane % kQuarter)...);
}
/// What a stage of rows_reduced_in_any_order() joins, rows in runs of kRun lanes.
template <int kRun, int kHalf, class V>
V joined(V a, V b) {
  constexpr int kBytes = kRun * static_cast<int>(sizeof(simd::Element<V>));
  using Pairs = simd::RegisterOf<std::uint64_t, sizeof(V)>;
  if constexpr (kBytes == 8 && !std::is_same_v<V, Pairs>)
    return reinterpret_cast<V>(joined<1, kHalf>(reinterpret_cast<Pairs>(a), reinterpret_cast<Pairs>(b)));
  else if constexpr (kBytes < 16)
    return unpacked<kHalf>(a, b, std::make_integer_sequence<int, simd::kLanesOf<V>>{});
  else
    return every_other<kHalf>(a, b, std::make_integer_sequence<int, simd::kLanesOf<V>>{});
}

/// rows_reduced() by an operation whose order does not matter. note: by shuffles within 16 bytes, then of
/// whole ones, which take half the time of those of single lanes (Zen 5).
template <int kRows, int kRun = 1, class V, class Op>
OCTET_HOST V rows_reduced_in_any_order(const V* rows, const Op& op) {
  constexpr int kLeft = (kRows + 1) / 2;
  V left[kLeft];
#pragma GCC unroll 16
  for (int i = 0; i < kLeft; ++i) {
    const V a = rows[2 * i], b = rows[2 * i + 1 < kRows ? 2 * i + 1 : 2 * i];
    left[i] = op(joined<kRun, 0>(a, b), joined<kRun, 1>(a, b));
  }
  if constexpr (2 * kRun == simd::kLanesOf<V>)
    return left[0];
  else
    return rows_reduced_in_any_order<kLeft, 2 * kRun>(left, op);
}

/// All lanes of each of kRows vectors by one operation, row r's in lane r; lanes beyond the rows have any
/// number. Neighbours first: as many vectors are left after each stage as there are pairs of rows.
/// kParts: each part of a vector is a row's of its own, and has its numbers.
template <int kRows, int kStride = 1, int kParts = 1, class V, class Op>
OCTET_HOST V rows_reduced(const V* rows, const Op& op) {
  if constexpr (kStride == 1 && kParts == 1 && !std::is_floating_point_v<simd::Element<V>>)
    return rows_reduced_in_any_order<kRows>(rows, op);
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
