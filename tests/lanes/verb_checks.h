// Every verb of a lane against ScalarLane's.
#pragma once
#include "tests/lanes/lane_check.h"

namespace octet::lane_check {
namespace {

/// `verb` is a function of a lane type and of lanes: it is asked on random values, all at once and one by
/// one; then once more with its last operand a plain number.
template <class L>
struct Verbs {
  static constexpr int kLanes = L::kWidth;
  static constexpr int kTrials = 3000;

  Report& report;
  Random random;

  template <class Out, class A, class Verb>
  void unary(const char* name, Verb verb) {
    for (int trial = 0; trial < kTrials; ++trial) {
      Values<A, kLanes> a;
      a.fill(random);
      Out vector[kLanes], scalar[kLanes];
      L::store(vector, verb(L{}, L::load(a.of)));
      for (int i = 0; i < kLanes; ++i) scalar[i] = verb(ScalarLane{}, a.of[i]);
      compare(report, name, vector, scalar, kLanes);
    }
  }

  template <class Out, class A, class B, class Verb>
  void binary(const char* name, Verb verb) {
    for (int trial = 0; trial < kTrials; ++trial) {
      Values<A, kLanes> a;
      Values<B, kLanes> b;
      a.fill(random), b.fill(random);
      Out vector[kLanes], scalar[kLanes];
      L::store(vector, verb(L{}, L::load(a.of), L::load(b.of)));
      for (int i = 0; i < kLanes; ++i) scalar[i] = verb(ScalarLane{}, a.of[i], b.of[i]);
      compare(report, name, vector, scalar, kLanes);
    }
  }

  /// A plain number on the right.
  template <class Out, class A, class B, class Verb>
  void with_number(const char* name, Verb verb) {
    for (int trial = 0; trial < kTrials; ++trial) {
      Values<A, kLanes> a;
      B b{};
      a.fill(random), draw(random, b);
      Out vector[kLanes], scalar[kLanes];
      L::store(vector, verb(L{}, L::load(a.of), b));
      for (int i = 0; i < kLanes; ++i) scalar[i] = verb(ScalarLane{}, a.of[i], b);
      compare(report, name, vector, scalar, kLanes);
    }
  }

  template <class Out, class A, class B, class Verb>
  void both(const char* name, Verb verb) {
    binary<Out, A, B>(name, verb);
    with_number<Out, A, B>(name, verb);
  }

  void floats() {
    both<float, float, float>("add", [](auto l, auto a, auto b) { return decltype(l)::add(a, b); });
    both<float, float, float>("sub", [](auto l, auto a, auto b) { return decltype(l)::sub(a, b); });
    both<float, float, float>("mul", [](auto l, auto a, auto b) { return decltype(l)::mul(a, b); });
    both<float, float, float>("div", [](auto l, auto a, auto b) { return decltype(l)::div(a, b); });
    both<float, float, float>("min", [](auto l, auto a, auto b) { return decltype(l)::min(a, b); });
    both<float, float, float>("max", [](auto l, auto a, auto b) { return decltype(l)::max(a, b); });
    both<float, float, float>("operators", [](auto, auto a, auto b) { return (a + b) * (a - b) / b; });
    both<float, float, float>("less and select", [](auto l, auto a, auto b) {
      using M = decltype(l);
      return M::select(M::less(a, b), a, b);
    });
    both<float, float, float>("comparisons", [](auto l, auto a, auto b) {
      using M = decltype(l);
      const auto x = M::select(a > b, a, M::select(a <= b, b, 7.0f));
      return M::select(a == b, x, M::select(a != b, M::select(a >= b, a, x), 5.0f));
    });
    unary<float, float>("rint", [](auto l, auto a) { return decltype(l)::rint(a); });
    unary<std::int32_t, float>("to_i32", [](auto l, auto a) { return decltype(l)::to_i32(a); });
    unary<std::int32_t, float>("nearest_i32", [](auto l, auto a) {
      using M = decltype(l);  // only what it promises: |a| < 2^31, or NaN
      return M::nearest_i32(M::select(a >= 2147483648.0f, 1.5f, M::select(a < -2147483648.0f, 2.5f, a)));
    });
    unary<std::int32_t, float>("truncate_i32", [](auto l, auto a) {
      using M = decltype(l);
      return M::truncate_i32(M::min(M::max(a, -2147483520.0f), 2147483520.0f));
    });
    unary<std::uint8_t, float>("to_u8", [](auto l, auto a) { return decltype(l)::to_u8(a); });
    unary<std::int8_t, float>("to_s8", [](auto l, auto a) { return decltype(l)::to_s8(a); });
    unary<float, std::int32_t>("to_f32", [](auto l, auto a) { return decltype(l)::to_f32(a); });
    unary<float, std::int32_t>("from_bits", [](auto l, auto a) { return decltype(l)::from_bits(a); });
    unary<std::int32_t, float>("bits", [](auto l, auto a) {
      using M = decltype(l);
      return M::bits(
          M::select(a != a, 1.0f, a));  // a signalling NaN does not survive a load on every machine
    });
  }

  void integers() {
    both<std::int32_t, std::int32_t, std::int32_t>(
        "add_i32", [](auto l, auto a, auto b) { return decltype(l)::add_i32(a, b); });
    both<std::int32_t, std::int32_t, std::int32_t>(
        "sub_i32", [](auto l, auto a, auto b) { return decltype(l)::sub_i32(a, b); });
    both<std::int32_t, std::int32_t, std::int32_t>(
        "mul_i32", [](auto l, auto a, auto b) { return decltype(l)::mul_i32(a, b); });
    both<std::int32_t, std::int32_t, std::int32_t>(
        "min_i32", [](auto l, auto a, auto b) { return decltype(l)::min_i32(a, b); });
    both<std::int32_t, std::int32_t, std::int32_t>(
        "max_i32", [](auto l, auto a, auto b) { return decltype(l)::max_i32(a, b); });
    both<std::int32_t, std::int32_t, std::int32_t>("less_i32", [](auto l, auto a, auto b) {
      using M = decltype(l);
      return M::select_i32(M::less_i32(a, b), 3, M::select_i32(M::equal_i32(a, b), a, 4));
    });
    both<std::int32_t, std::int32_t, std::int32_t>(
        "mulhi_i32", [](auto l, auto a, auto b) { return decltype(l)::mulhi_i32(a, b); });
    both<std::uint32_t, std::uint32_t, std::uint32_t>(
        "mulhi_u32", [](auto l, auto a, auto b) { return decltype(l)::mulhi_u32(a, b); });
    both<std::int32_t, std::uint16_t, std::int32_t>("mul_u15", [](auto l, auto a, auto b) {
      using M = decltype(l);
      return M::mul_u15(M::widen_u16(a) & 0x7fff, b & 0x7fff);
    });
    both<std::int32_t, std::int32_t, std::uint32_t>(
        "shl_i32", [](auto l, auto a, auto s) { return decltype(l)::shl_i32(a, s); });
    both<std::int32_t, std::int32_t, std::uint32_t>(
        "sra_i32", [](auto l, auto a, auto s) { return decltype(l)::sra_i32(a, s); });
    both<std::uint32_t, std::uint32_t, std::uint32_t>(
        "srl_u32", [](auto l, auto a, auto s) { return decltype(l)::srl_u32(a, s); });
    unary<std::uint32_t, std::uint32_t>("clz_u32", [](auto l, auto a) { return decltype(l)::clz_u32(a); });
    unary<std::uint32_t, std::uint32_t>("clz_u32 of a power of two and its neighbours", [](auto l, auto a) {
      using M = decltype(l);
      const auto power = as_unsigned(M::shl_i32(1, a & 31u));
      return M::clz_u32(power) + 64u * M::clz_u32(power - 1u) + 4096u * M::clz_u32(power + 1u);
    });
    unary<std::uint8_t, std::int32_t>("to_u8_i32", [](auto l, auto a) { return decltype(l)::to_u8_i32(a); });
    unary<std::int8_t, std::int32_t>("to_s8_i32", [](auto l, auto a) { return decltype(l)::to_s8_i32(a); });
    unary<std::uint16_t, std::int32_t>("to_u16_i32",
                                       [](auto l, auto a) { return decltype(l)::to_u16_i32(a); });
  }

  void halves() {
    unary<std::uint16_t, std::uint32_t>("upper_u16",
                                        [](auto l, auto a) { return decltype(l)::upper_u16(a); });
    both<std::uint16_t, std::uint16_t, std::uint16_t>(
        "adds_u16", [](auto l, auto a, auto b) { return decltype(l)::adds_u16(a, b); });
    both<std::uint16_t, std::uint16_t, std::uint16_t>(
        "sub_u16", [](auto l, auto a, auto b) { return decltype(l)::sub_u16(a, b); });
    both<std::uint16_t, std::uint16_t, std::uint16_t>(
        "mulhi_u16", [](auto l, auto a, auto b) { return decltype(l)::mulhi_u16(a, b); });
    both<std::uint16_t, std::uint16_t, std::uint16_t>(
        "avg_u16", [](auto l, auto a, auto b) { return decltype(l)::avg_u16(a, b); });
    both<std::uint16_t, std::uint16_t, std::uint16_t>("mulhrs_u16", [](auto l, auto a, auto b) {
      using M = decltype(l);  // promised for 15 bits
      return M::mulhrs_u16(M::srl_u16(a, 1), M::min_u16(b, 32767));
    });
    both<std::uint16_t, std::uint16_t, std::uint16_t>(
        "min_u16", [](auto l, auto a, auto b) { return decltype(l)::min_u16(a, b); });
    both<std::uint16_t, std::uint16_t, std::uint16_t>(
        "max_u16", [](auto l, auto a, auto b) { return decltype(l)::max_u16(a, b); });
    both<std::uint16_t, std::uint16_t, std::uint16_t>(
        "srlv_u16", [](auto l, auto a, auto s) { return decltype(l)::srlv_u16(a, s); });
    with_number<std::uint16_t, std::uint16_t, std::uint32_t>(
        "srl_u16", [](auto l, auto a, auto s) { return decltype(l)::srl_u16(a, s & 31u); });
    with_number<std::uint16_t, std::uint16_t, std::uint32_t>(
        "shl_u16", [](auto l, auto a, auto s) { return decltype(l)::shl_u16(a, s & 31u); });
    unary<std::int32_t, std::uint16_t>("widen_u16", [](auto l, auto a) { return decltype(l)::widen_u16(a); });
  }

  void accumulators() {
    unary<std::int64_t, std::int32_t>("widen", [](auto l, auto a) { return decltype(l)::widen(a); });
    both<std::int64_t, std::int32_t, std::int32_t>(
        "mul_wide", [](auto l, auto a, auto b) { return decltype(l)::mul_wide(a, b); });
    both<std::int64_t, std::int64_t, std::int64_t>(
        "mul_i64", [](auto l, auto a, auto b) { return decltype(l)::mul_i64(a, b); });
    both<std::int64_t, std::int64_t, std::int64_t>(
        "add_i64", [](auto l, auto a, auto b) { return decltype(l)::add_i64(a, b); });
    with_number<std::int64_t, std::int64_t, std::uint32_t>(
        "shl_i64", [](auto l, auto a, auto s) { return decltype(l)::shl_i64(a, s % 70u); });
    with_number<std::int64_t, std::int64_t, std::uint32_t>(
        "sra_i64", [](auto l, auto a, auto s) { return decltype(l)::sra_i64(a, s % 70u); });
    unary<std::int32_t, std::int64_t>("low_word", [](auto l, auto a) { return decltype(l)::low_word(a); });
    unary<std::int32_t, std::int64_t>("high_word", [](auto l, auto a) { return decltype(l)::high_word(a); });
  }

  void tables() {
    constexpr int kEntries = 256;
    float table[kEntries];
    for (float& x : table) draw(random, x);
    unary<float, std::int32_t>(
        "gather", [&](auto l, auto a) { return decltype(l)::gather(table, a & (kEntries - 1)); });
    unary<float, std::int32_t>("lookup64",
                               [&](auto l, auto a) { return decltype(l)::lookup64(table + 1, a & 63); });
    constexpr int kFew = 16;
    std::int32_t few[kFew];
    for (std::int32_t& x : few) draw(random, x);
    unary<std::int32_t, std::int32_t>(
        "lookup16", [&](auto l, auto a) { return decltype(l)::lookup16(few, a & (kFew - 1)); });
  }

  void single_lanes() {
    Values<std::int32_t, kLanes> a;
    a.fill(random);
    auto lanes = L::load(a.of);
    std::int32_t got[kLanes], want[kLanes];
    for (int i = 0; i < kLanes; ++i) got[i] = L::get_i32(lanes, i);
    compare(report, "get_i32", got, a.of, kLanes);
    for (int i = 0; i < kLanes; ++i) L::put_i32(lanes, i, want[i] = 3 * i - 5);
    L::store(got, lanes);
    compare(report, "put_i32", got, want, kLanes);
    for (int trial = 0; trial < kTrials; ++trial) {
      a.fill(random);
      std::int32_t largest = a.of[0];
      for (const std::int32_t x : a.of) largest = ScalarLane::max_i32(largest, x);
      const std::int32_t found = L::largest_lane_i32(L::load(a.of));
      compare(report, "largest_lane_i32", &found, &largest, 1);
      const std::int32_t x = a.of[trial % kLanes];
      const std::int32_t any = L::any_i32(L::equal_i32(L::load(a.of), x)),
                         none = !L::any_i32(L::less_i32(largest, L::load(a.of)));
      const std::int32_t yes = 1;
      compare(report, "any_i32", &any, &yes, 1);
      compare(report, "any_i32 of none", &none, &yes, 1);
    }
  }

  void all() {
    floats();
    integers();
    halves();
    accumulators();
    tables();
    single_lanes();
  }
};

/// Lanes of 8 or 16 values.
template <class Tag>
Report check_verbs(int lanes) {
  Report report;
  if (lanes == 8)
    Verbs<VectorLane<8, Tag>>{report, {}}.all();
  else
    Verbs<VectorLane<16, Tag>>{report, {}}.all();
  return report;
}

}  // namespace
}  // namespace octet::lane_check
