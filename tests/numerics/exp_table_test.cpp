// Table exponentials: their errors over uniform delta in [0, 8] are those of the papers' analysis
// (papers.md 5.1).
#include "numerics/exp_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lanes/scalar.h"

namespace octet::exp_table_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Error {
  double rmse = 0, most = 0;
};

/// Over 10^6 deltas in [0, 8), evenly spread with an irrational offset of their own, so that no table step
/// resonates.
template <class F>
Error measure(F function) {
  constexpr int kDraws = 1000000;
  constexpr std::uint32_t kGolden = 2654435769u;  // 2^32 over the golden ratio: Weyl's sequence modulo 1
  constexpr double kUnit = 0x1p-32;
  Error error;
  double square = 0;
  std::uint32_t draw = 0;
  for (int i = 0; i < kDraws; ++i) {
    const auto delta = static_cast<float>(8.0 * kUnit * static_cast<double>(draw));
    draw += kGolden;
    const double e = static_cast<double>(function(delta)) - std::exp(-static_cast<double>(delta));
    square += e * e;
    error.most = std::max(error.most, std::fabs(e));
  }
  error.rmse = std::sqrt(square / kDraws);
  return error;
}

void expect_close(const Error& error, double rmse, double most, const std::string& what) {
  EXPECT_NEAR(error.rmse, rmse, 0.05 * rmse) << what;
  if (most > 0) {
    EXPECT_NEAR(error.most, most, 0.05 * most) << what;
  }
}

std::vector<float> direct_table(int bits) {
  std::vector<float> table(static_cast<std::size_t>(direct_table_entries(bits)));
  build_direct_table(table.data(), bits);
  return table;
}
std::vector<float> linear_table(int bits) {
  std::vector<float> table(static_cast<std::size_t>(linear_table_entries(bits)));
  build_linear_table(table.data(), bits);
  return table;
}
std::vector<float> range_table(int bits) {
  std::vector<float> table(static_cast<std::size_t>(range_table_entries(bits)));
  build_range_table(table.data(), bits);
  return table;
}
std::vector<QuadraticSegment> quadratic_table(int bits) {
  std::vector<QuadraticSegment> table(static_cast<std::size_t>(quadratic_table_entries(bits)));
  build_quadratic_table(table.data(), bits);
  return table;
}
std::vector<std::uint8_t> code_table(int bits) {
  std::vector<std::uint8_t> table(static_cast<std::size_t>(direct_table_entries(bits)));
  build_code_table(table.data(), bits);
  return table;
}

TEST(ExpTable, DirectTablesFollowTheLawAndTheMeasuredFigures) {
  const struct {
    int bits;
    double rmse, most;
  } published[] = {{8, 2.25e-3, 1.56e-2}, {9, 1.13e-3, 0}, {10, 5.6e-4, 3.9e-3}, {12, 1.4e-4, 0}};
  for (const auto& p : published) {
    const auto table = direct_table(p.bits);
    const Error error =
        measure([&](float delta) { return direct_table_exp<ScalarLane>(table.data(), p.bits, delta); });
    expect_close(error, p.rmse, p.most, "direct, bits " + std::to_string(p.bits));
    expect_close(error, std::ldexp(0.577, -p.bits), 0, "law, bits " + std::to_string(p.bits));
  }
}

TEST(ExpTable, LinearTablesHaveTheMeasuredErrors) {
  const auto six = linear_table(6);
  expect_close(measure([&](float delta) { return linear_table_exp<ScalarLane>(six.data(), 6, delta); }),
               3.56e-4, 1.84e-3, "64 segments");
  const auto eight = linear_table(8);
  expect_close(
      measure([&](float delta) { return linear_table_exp_fixed<ScalarLane>(eight.data(), 8, 4, delta); }),
      1.43e-4, 1.1e-3, "8 + 4 bits");
}

TEST(ExpTable, QuadraticTablesHaveTheMeasuredErrors) {
  const auto five = quadratic_table(5);
  expect_close(measure([&](float delta) { return quadratic_table_exp(five.data(), 5, delta); }), 2.2e-5, 0,
               "32 segments");
  const auto eight = quadratic_table(8);
  expect_close(measure([&](float delta) { return quadratic_table_exp(eight.data(), 8, delta); }), 4.4e-8, 0,
               "256 segments");
}

TEST(ExpTable, RangeReducedTablesHaveTheMeasuredErrors) {
  const struct {
    int bits;
    double rmse;
  } published[] = {{3, 1.7e-4}, {4, 4.3e-5}, {5, 1.1e-5}, {6, 2.7e-6}, {8, 1.7e-7}};
  for (const auto& p : published) {
    const auto table = range_table(p.bits);
    const Error error =
        measure([&](float delta) { return range_table_exp<ScalarLane>(table.data(), p.bits, delta); });
    expect_close(error, p.rmse, 0, "range-reduced, bits " + std::to_string(p.bits));
  }
}

TEST(ExpTable, TheMaximumIsExactAndTheTailIsZero) {
  for (int bits = 3; bits <= 16; ++bits) {
    const auto direct = direct_table(bits), linear = linear_table(bits), range = range_table(bits);
    const auto quadratic = quadratic_table(bits);
    const auto code = code_table(bits);
    EXPECT_EQ(direct_table_exp<ScalarLane>(direct.data(), bits, 0.0f), 1.0f) << bits;
    EXPECT_EQ(linear_table_exp<ScalarLane>(linear.data(), bits, 0.0f), 1.0f) << bits;
    EXPECT_EQ(linear_table_exp_fixed<ScalarLane>(linear.data(), bits, 4, 0.0f), 1.0f) << bits;
    EXPECT_EQ(quadratic_table_exp(quadratic.data(), bits, 0.0f), 1.0f) << bits;
    EXPECT_EQ(range_table_exp<ScalarLane>(range.data(), bits, 0.0f), 1.0f) << bits;
    EXPECT_EQ(code_table_exp2(code.data(), bits, 0.0f), 255) << bits;
    for (const float delta : {8.0f, 8.001f, 100.0f, 3e38f, kInf, kNan}) {
      EXPECT_EQ(direct_table_exp<ScalarLane>(direct.data(), bits, delta), 0.0f) << bits << " " << delta;
      EXPECT_EQ(linear_table_exp<ScalarLane>(linear.data(), bits, delta), 0.0f) << bits << " " << delta;
      EXPECT_EQ(linear_table_exp_fixed<ScalarLane>(linear.data(), bits, 4, delta), 0.0f)
          << bits << " " << delta;
      EXPECT_EQ(quadratic_table_exp(quadratic.data(), bits, delta), 0.0f) << bits << " " << delta;
    }
    for (const float octaves : {127.0f, 1000.0f, kInf, kNan}) {
      EXPECT_EQ(range_table_exp2<ScalarLane>(range.data(), bits, octaves), 0.0f) << bits << " " << octaves;
    }
    for (const float octaves : {9.0f, 100.0f, kInf, kNan}) {
      EXPECT_EQ(code_table_exp2(code.data(), bits, octaves), 0) << bits << " " << octaves;
    }
  }
}

TEST(ExpTable, NoFormEverRisesWithDistance) {
  const int bits = 6;
  const auto direct = direct_table(bits), linear = linear_table(bits), range = range_table(bits);
  const auto code = code_table(10);
  float direct_before = 2, linear_before = 2, range_before = 2;
  int code_before = 256;
  for (int i = 0; i < 200000; ++i) {
    const float delta = 5e-5f * static_cast<float>(i);
    const float d = direct_table_exp<ScalarLane>(direct.data(), bits, delta),
                l = linear_table_exp<ScalarLane>(linear.data(), bits, delta);
    const float r = range_table_exp<ScalarLane>(range.data(), bits, delta);
    const int c = code_table_exp2(code.data(), 10, delta);
    ASSERT_LE(d, direct_before) << delta;
    ASSERT_LE(l, linear_before) << delta;
    ASSERT_LE(r, range_before) << delta;
    ASSERT_LE(c, code_before) << delta;
    direct_before = d, linear_before = l, range_before = r, code_before = c;
  }
}

/// Range reduction keeps its relative error however far the key is: it leaks nothing and cuts nothing.
TEST(ExpTable, RangeReductionIsAsGoodAtAHundredOctaves) {
  const auto table = range_table(6);
  for (int i = 0; i < 126 * 64; ++i) {
    const float octaves =
        0.015625f * static_cast<float>(i) + 0.0078125f;  // the middles of the segments: the worst places
    const double want = std::exp2(-static_cast<double>(octaves));
    // The chord of 2^-f over 1/64 octave is high by (ln 2 / 64)^2 / 8 = 1.47e-5 at most.
    ASSERT_NEAR(range_table_exp2<ScalarLane>(table.data(), 6, octaves) / want, 1 + 1.47e-5, 2e-7) << octaves;
  }
}

/// 10 bits are enough for u8 codes, 8 are too few: half a step of the table is 0.8 and 3.1 codes at the top.
TEST(ExpTable, CodeTablesOfTenBitsAreOffByOneCodeAtMost) {
  for (const auto& [bits, allowed] : {std::pair{10, 1}, std::pair{12, 1}, std::pair{8, 3}}) {
    const auto table = code_table(bits);
    int worst = 0;
    for (int i = 0; i <= 1000000; ++i) {
      const float octaves = 1e-5f * static_cast<float>(i);
      const int want = static_cast<int>(std::floor(255.0 * std::exp2(-static_cast<double>(octaves)) + 0.5));
      worst = std::max(worst, std::abs(want - code_table_exp2(table.data(), bits, octaves)));
    }
    EXPECT_EQ(worst, allowed) << "bits " << bits;
  }
}

}  // namespace
}  // namespace octet::exp_table_test
