// ShiftExp2 against the fixtures, against Python-like integers, and against what the papers' analysis says it
// gets wrong.
#include "numerics/shift_exp2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>

#include "json/json.h"

namespace octet {
namespace {

/// Floor division by 2^s for any s >= 0, without a shift: how an integer of any width behaves.
std::int64_t floor_halvings(std::int64_t a, std::int64_t s) {
  for (; s > 0 && a != 0 && a != -1; --s) a = a >= 0 ? a / 2 : -((1 - a) / 2);
  return a;
}

/// What int32 keeps of a wide value.
std::int64_t wrap32(std::int64_t a) {
  constexpr std::int64_t kTwo32 = std::int64_t{1} << 32;
  const std::int64_t low = ((a % kTwo32) + kTwo32) % kTwo32;
  return low >= kTwo32 / 2 ? low - kTwo32 : low;
}

std::int64_t model(std::int64_t x, std::int64_t q, std::int64_t one) {
  const std::int64_t r = wrap32(x + wrap32(q * one));
  const std::int64_t line = wrap32(floor_halvings(r, 1) + one);
  const std::int64_t halvings = q < 0 || q > 31 ? 31 : q;
  return floor_halvings(line, halvings);
}

std::int64_t model_multiply(std::int64_t x, std::int64_t one, std::int64_t multiplier) {
  return model(x, floor_halvings(wrap32(x * multiplier), 16), one);
}

ShiftExp2Constants constants_of(double d) {
  return {static_cast<std::int32_t>(std::nearbyint(1 / d)),
          static_cast<std::int32_t>(std::nearbyint(-d * 65536))};
}

/// Largest and least relative error of the result against 2^(-t), over x = -1 ... -octaves / D. Above 1e6 the
/// step grows.
struct Range {
  double least = 1e30, most = -1e30;
  double at_most = 0;  // in octaves
};
template <class F>
Range relative_errors(F function, const ShiftExp2Constants& c, double d, double octaves) {
  Range range;
  const auto last = static_cast<std::int32_t>(octaves / d);
  for (std::int32_t x = 0; x >= -last; --x) {
    const double want = std::exp2(d * x), error = function(x, c) * d / want - 1;
    if (error > range.most) range.most = error, range.at_most = d * x;
    range.least = std::min(range.least, error);
  }
  return range;
}

TEST(ShiftExp2, MatchesTheFixturesBitForBit) {
  std::ifstream file(OCTET_SOURCE_DIR "/tests/data/qflash/qflash_integer_cases.json");
  ASSERT_TRUE(file) << "tests/data/qflash/qflash_integer_cases.json is missing";
  const tool::Json cases = tool::Json::parse(file)["shiftexp2"];
  ASSERT_EQ(cases.size(), 8u);
  for (const tool::Json& c : cases) {
    const ShiftExp2Constants constants{c["R"].get<std::int32_t>(), c["M"].get<std::int32_t>()};
    ASSERT_EQ(c["x"].size(), 16u);
    for (std::size_t i = 0; i < c["x"].size(); ++i) {
      const auto x = c["x"][i].get<std::int32_t>();
      EXPECT_EQ(shift_exp2_multiply(x, constants), c["mulshift"][i].get<std::int32_t>())
          << "R0 " << constants.one << " x " << x;
      EXPECT_EQ(shift_exp2_divide(x, constants), c["idiv"][i].get<std::int32_t>())
          << "R0 " << constants.one << " x " << x;
    }
  }
}

TEST(ShiftExp2, EveryArgumentTo2To17EqualsAPlainIntegerModel) {
  for (const double d : {1.79e-4, 2.53e-4, 1e-3, 1e-2, 0.3, 5e-5, 2.27e-5, 7e-6, 1e-6}) {
    const ShiftExp2Constants c = constants_of(d);
    for (std::int32_t x = 0; x >= -(1 << 17); --x) {
      ASSERT_EQ(shift_exp2_multiply(x, c), model_multiply(x, c.one, c.multiplier)) << "D " << d << " x " << x;
      ASSERT_EQ(shift_exp2_divide(x, c), model(x, -std::int64_t{x} / c.one, c.one))
          << "D " << d << " x " << x;
    }
  }
}

/// Masked keys reach -3 * 2^20 and more, where the 32-bit product wraps for D > 1e-2.
TEST(ShiftExp2, FarArgumentsWrapLikeTheModel) {
  for (const double d : {1.79e-4, 5e-5, 1.2e-2, 0.4}) {
    const ShiftExp2Constants c = constants_of(d);
    for (std::int64_t x = -1; x >= std::numeric_limits<std::int32_t>::min(); x = x * 5 / 4 - 1) {
      const auto narrow = static_cast<std::int32_t>(x);
      ASSERT_EQ(shift_exp2_multiply(narrow, c), model_multiply(x, c.one, c.multiplier))
          << "D " << d << " x " << x;
    }
    EXPECT_EQ(shift_exp2_divide(std::numeric_limits<std::int32_t>::min(), c),
              model(std::numeric_limits<std::int32_t>::min(), (std::int64_t{1} << 31) / c.one, c.one));
  }
}

TEST(ShiftExp2, TheShiftClampsAnyAmount) {
  for (const std::int32_t s : {31, 32, 33, 1000, -1, std::numeric_limits<std::int32_t>::min()}) {
    EXPECT_EQ(shift_right_clamped(1 << 30, s), 0) << s;
    EXPECT_EQ(shift_right_clamped(-1, s), -1) << s;
  }
  EXPECT_EQ(shift_right_clamped(-5, 1), -3);
}

// The published error figures (papers' analysis, 2.4).

TEST(ShiftExp2, TheLineIsHighBySixPercentAtMostAndExactAtTheMaximum) {
  const double d = 1e-6;  // a fine R0: what the line alone does
  const ShiftExp2Constants c = constants_of(d);
  const Range range = relative_errors(shift_exp2_divide<std::int32_t>, c, d, 1.0 - 1e-5);
  EXPECT_NEAR(range.most, 0.06148, 2e-5);
  EXPECT_NEAR(range.at_most, -0.557, 1e-3);
  EXPECT_GT(range.least, -1e-5);
  EXPECT_EQ(shift_exp2_multiply(0, c), c.one);

  double sum = 0, square = 0;
  const int n = 1000000;
  for (int i = 0; i < n; ++i) {
    const double r = -(i + 0.5) / n;
    sum += (1 + r / 2) / std::exp2(r) - 1;
    square += std::pow(shift_exp2_divide(static_cast<std::int32_t>(r / d), c) * d - std::exp2(r), 2);
  }
  EXPECT_NEAR(sum / n, 0.0407, 1e-4);
  EXPECT_NEAR(std::sqrt(square / n), 0.0314, 1e-4);
}

/// Down to 2^-8 the last shift truncates up to one unit of R0's scale.
TEST(ShiftExp2, TruncationGrowsAsR0Shrinks) {
  const struct {
    std::int32_t one;
    double least;
  } published[] = {{10000, -0.018}, {5590, -0.043}, {2000, -0.12}, {1000, -0.24}, {333, -0.47}, {100, -1.0}};
  for (const auto& p : published) {
    const double d = 1.0 / p.one;
    const Range range = relative_errors(shift_exp2_divide<std::int32_t>, {p.one, 0}, d, 8.0);
    EXPECT_NEAR(range.least, p.least, 0.01) << "R0 " << p.one;
  }
}

/// M_e has 4 or 5 bits at the scales of the benchmark: its rounding moves the octaves' seams.
TEST(ShiftExp2, TheMultipliedQuotientWidensTheErrorAsPublished) {
  const struct { double d, least, most; } published[] = {{1.79e-4, -0.073, 0.062}, {2.53e-4, -0.096, 0.062}};
  for (const auto& p : published) {
    const Range range = relative_errors(shift_exp2_multiply<std::int32_t>, constants_of(p.d), p.d, 8.0);
    EXPECT_NEAR(range.least, p.least, 0.01) << "D " << p.d;
    EXPECT_NEAR(range.most, p.most, 0.002) << "D " << p.d;
  }
}

TEST(ShiftExp2, SmallScalesBreakItAsPublished) {
  EXPECT_NEAR(relative_errors(shift_exp2_multiply<std::int32_t>, constants_of(5e-5), 5e-5, 8.0).least, -0.45,
              0.02);
  // M_e = -1 is off by a third: weights turn negative.
  const ShiftExp2Constants third = constants_of(2.27e-5);
  EXPECT_EQ(third.multiplier, -1);
  EXPECT_NEAR(relative_errors(shift_exp2_multiply<std::int32_t>, third, 2.27e-5, 8.0).least, -8.8, 0.1);
  // M_e = 0: the single line 1 + x/2, negative below two octaves.
  const double d = 7.0e-6;
  const ShiftExp2Constants none = constants_of(d);
  EXPECT_EQ(none.multiplier, 0);
  for (const double octaves : {0.5, 1.0, 1.5, 3.0, 10.0}) {
    const auto x = static_cast<std::int32_t>(-octaves / d);
    EXPECT_NEAR(shift_exp2_multiply(x, none) * d, 1 - octaves / 2, 1e-4) << octaves;
  }
}

TEST(ShiftExp2, MeanSquareErrorOverEightOctavesIsAsPublished) {
  const double d = 1e-6;
  const ShiftExp2Constants c = constants_of(d);
  double square = 0;
  const int n = 800000;
  for (int i = 0; i < n; ++i) {
    const auto x = static_cast<std::int32_t>(-10 * i);
    square += std::pow(shift_exp2_divide(x, c) * d - std::exp2(d * x), 2);
  }
  EXPECT_NEAR(std::sqrt(square / n), 1.28e-2, 1e-4);
}

}  // namespace
}  // namespace octet
