// Exponentials by table: e^-delta for delta >= 0, the distance of a score from its row's maximum.
//
// Four forms of the LUT appendix: direct (nearest entry), linear, quadratic, and range-reduced (2^-n times a
// small table); plus a direct table of finished u8 codes in base 2. The first three end at `kTableReach`: the
// LAST entry is 0, so a key beyond it has no weight. Clamping to the last value instead, as the appendix
// does, would leave e^-8 to each of them, and 4096 such keys add 1.37 to a row whose maximum is 1. The
// range-reduced form needs no end. Errors below: against e^-delta for delta uniform in [0, 8] nats, entries
// in f32; tests/numerics/exp_table_test.cpp. build_* run on the host and fill the caller's memory; the
// look-ups run anywhere, in any lane L, and take any delta >= 0, Inf included (NaN is taken as Inf).
#pragma once
#include <cmath>
#include <cstdint>

#include "base/bits.h"
#include "base/hd.h"

namespace octet {

inline constexpr float kTableReach = 8.0f;  ///< nats; e^-8 = 3.4e-4
inline constexpr float kCodeTableReach =
    9.0f;  ///< octaves: 255 * 2^-9 = 0.498 is the first whole octave that rounds to 0

/// Nodes of 2^bits segments, 1 <= bits <= 16.
OCTET_HOST constexpr std::int64_t table_nodes(int bits) { return (std::int64_t{1} << bits) + 1; }
/// Up to so many segments have their nodes looked up in registers (Lane::lookup64).
inline constexpr int kFewBits = 6;

/// Entries that the caller provides for tables of 2^bits segments: what lies behind the nodes of few segments
/// is read with them.
OCTET_HOST constexpr std::int64_t direct_table_entries(int bits) { return std::int64_t{1} << bits; }
OCTET_HOST constexpr std::int64_t linear_table_entries(int bits) {
  return table_nodes(bits > kFewBits ? bits : kFewBits);
}
OCTET_HOST constexpr std::int64_t range_table_entries(int bits) { return linear_table_entries(bits); }

/// One segment of the quadratic table: e^-(k h + s h) ~ c0 + s (c1 + s c2), 0 <= s < 1.
struct QuadraticSegment {
  float c0, c1, c2;
};
OCTET_HOST constexpr std::int64_t quadratic_table_entries(int bits) { return (std::int64_t{1} << bits) + 1; }

/// delta in steps of `reach` / 2^bits, held at 2^bits (NaN too). Exact for a reach of 8; the callers' reach
/// is a constant, so its reciprocal is one as well.
template <class F32>
OCTET_HD constexpr F32 table_position(F32 delta, float reach, int bits) {
  const float steps = power_of_two(bits);
  return LaneTraits<F32>::min(delta * (1.0f / reach) * steps, steps);
}

/// Direct: table[k] = e^-(k h), h = 8 / 2^bits, the last entry 0. RMSE 0.577 * 2^-bits (5.6e-4 for 10 bits),
/// largest error h/2 (3.9e-3).
OCTET_HOST void build_direct_table(float* table, int bits) {
  const std::int64_t last = direct_table_entries(bits) - 1;
  const double h = std::ldexp(static_cast<double>(kTableReach), -bits);
  for (std::int64_t k = 0; k < last; ++k)
    table[k] = static_cast<float>(std::exp(-h * static_cast<double>(k)));
  table[last] = 0.0f;
}

template <class L>
OCTET_HD typename L::F32 direct_table_exp(const float* table, int bits, typename L::F32 delta) {
  const auto index = L::nearest_i32(table_position(delta, kTableReach, bits));
  const std::int32_t last = (std::int32_t{1} << bits) - 1;
  return L::gather(table, L::min_i32(index, last));
}

/// Linear: between the nodes table[k] and table[k + 1], the last node 0 (the last segment is a ramp that ends
/// in 0). RMSE 3.6e-4 for 6 bits (largest error 1.8e-3);
/// 2.5e-5 for 8 bits, where the largest error is the ramp's, 3.4e-4.
OCTET_HOST void build_linear_table(float* table, int bits) {
  const std::int64_t last = table_nodes(bits) - 1;
  const double h = std::ldexp(static_cast<double>(kTableReach), -bits);
  for (std::int64_t k = 0; k < last; ++k)
    table[k] = static_cast<float>(std::exp(-h * static_cast<double>(k)));
  for (std::int64_t k = last; k < linear_table_entries(bits); ++k) table[k] = 0.0f;
}

/// The point between nodes index and index + 1; the last segment's end belongs to it, so index + 1 is always
/// a node.
template <class L>
OCTET_HD typename L::F32 interpolate(const float* table, int bits, typename L::F32 position) {
  const std::int32_t last = (std::int32_t{1} << bits) - 1;
  const auto index = L::min_i32(L::truncate_i32(position), last);
  const auto s = position - L::to_f32(index);
  const auto at = [&](const float* nodes) {
    return bits <= kFewBits ? L::lookup64(nodes, index) : L::gather(nodes, index);
  };
  const auto node = at(table);
  return node + s * (at(table + 1) - node);
}

template <class L>
OCTET_HD typename L::F32 linear_table_exp(const float* table, int bits, typename L::F32 delta) {
  return interpolate<L>(table, bits, table_position(delta, kTableReach, bits));
}

/// The same with the weight s rounded to a multiple of 2^-weight_bits: a fixed-point index of bits +
/// weight_bits bits, whose low part is the weight. 8 + 4 bits: RMSE 1.4e-4, largest error 1.1e-3.
template <class L>
OCTET_HD typename L::F32 linear_table_exp_fixed(const float* table, int bits, int weight_bits,
                                                typename L::F32 delta) {
  const float scale = power_of_two(weight_bits);
  const auto rounded = L::rint(table_position(delta, kTableReach, bits) * scale);
  return interpolate<L>(table, bits, rounded * power_of_two(-weight_bits));
}

/// Quadratic: through both ends and the middle of each segment; the last entry (delta >= 8) is all 0.
/// RMSE 2.2e-5 for 5 bits, an eighth of it for each further bit.
OCTET_HOST void build_quadratic_table(QuadraticSegment* table, int bits) {
  const std::int64_t last = quadratic_table_entries(bits) - 1;
  const double h = std::ldexp(static_cast<double>(kTableReach), -bits);
  for (std::int64_t k = 0; k < last; ++k) {
    const auto at = [&](double s) { return std::exp(-h * (static_cast<double>(k) + s)); };
    const double start = at(0.0), middle = at(0.5), end = at(1.0);
    table[k] = {static_cast<float>(start), static_cast<float>(4.0 * middle - 3.0 * start - end),
                static_cast<float>(2.0 * (start + end) - 4.0 * middle)};
  }
  table[last] = {0.0f, 0.0f, 0.0f};
}

OCTET_HD constexpr float quadratic_table_exp(const QuadraticSegment* table, int bits, float delta) {
  const float position = table_position(delta, kTableReach, bits);
  const auto index = static_cast<std::int32_t>(position);  // 2^bits from the end on: the segment of zeros
  const float s = position - static_cast<float>(index);
  return table[index].c0 + s * (table[index].c1 + s * table[index].c2);
}

/// Range-reduced: e^-delta = 2^-n 2^-f with n + f = delta log2(e), the fraction's part from a linear table on
/// [0, 1]. No end: beyond n = 126 the result is 0. RMSE 1.7e-4, 4.3e-5, 1.1e-5, 2.7e-6 for 3, 4, 5, 6 bits.
OCTET_HOST void build_range_table(float* table, int bits) {
  for (std::int64_t k = 0; k < table_nodes(bits); ++k)
    table[k] = static_cast<float>(std::exp2(-std::ldexp(static_cast<double>(k), -bits)));
  for (std::int64_t k = table_nodes(bits); k < range_table_entries(bits); ++k) table[k] = 0.0f;
}

/// `octaves` >= 0 is delta log2(e): the form for schemes whose scores are in base 2 already.
template <class L>
OCTET_HD typename L::F32 range_table_exp2(const float* table, int bits, typename L::F32 octaves) {
  constexpr float kMost = 127.0f;  // 2^-126 is the last normal power
  const auto t = L::min(octaves, kMost);
  const auto n = L::truncate_i32(t);
  const auto fraction = t - L::to_f32(n);
  const auto scale = power_of_two(-n);  // 2^-127 is 0, as its exponent field is
  return interpolate<L>(table, bits, fraction * power_of_two(bits)) * scale;
}

template <class L>
OCTET_HD typename L::F32 range_table_exp(const float* table, int bits, typename L::F32 delta) {
  constexpr float kOctavesPerNat = 1.44269504088896341f;  // log2(e)
  return range_table_exp2<L>(table, bits, delta * kOctavesPerNat);
}

/// Codes: table[k] = round(255 * 2^-(k h)) with h = 9 octaves / 2^bits, u8; the last entry 0. One look-up
/// gives the P code of a score `octaves` below the maximum. 10 bits: off by at most one code from round(255 *
/// 2^-octaves).
OCTET_HOST void build_code_table(std::uint8_t* table, int bits) {
  const std::int64_t last = direct_table_entries(bits) - 1;
  const double h = std::ldexp(static_cast<double>(kCodeTableReach), -bits);
  for (std::int64_t k = 0; k < last; ++k) {
    table[k] = static_cast<std::uint8_t>(std::floor(255.0 * std::exp2(-h * static_cast<double>(k)) + 0.5));
  }
  table[last] = 0;
}

OCTET_HD constexpr std::uint8_t code_table_exp2(const std::uint8_t* table, int bits, float octaves) {
  const auto index =
      static_cast<std::int32_t>(round_to_integer(table_position(octaves, kCodeTableReach, bits)));
  const std::int32_t last = (std::int32_t{1} << bits) - 1;
  return table[index < last ? index : last];
}

}  // namespace octet
