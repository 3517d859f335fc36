// The softmaxes of whole rows on scores whose answer is known, and the parts that they are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lanes/scalar.h"
#include "numerics/fqvit.h"
#include "numerics/ibert.h"
#include "numerics/ivit.h"
#include "numerics/standard.h"

namespace octet {
namespace {

/// Scales of the benchmark inputs, U(-4, 4) at d = 64: one score unit is 1.24e-4.
Prepare benchmark_scales() {
  Prepare p;
  p.softmax_scale = 0.125f;
  p.q_scale = p.k_scale = p.v_scale = 4.0f / 127;
  return p;
}

template <class S>
std::vector<typename S::Code> softmax(const S& scheme, const std::vector<typename S::Score>& score) {
  std::vector<typename S::Code> p(score.size());
  scheme.softmax(score.data(), static_cast<std::int64_t>(score.size()), p.data());
  return p;
}

/// The paper's polynomial is 0.33 % off at most; its rounded constants and ln 2 = 0.6931 add a little.
TEST(IExp, IsWithinHalfAPercentOfExp) {
  constexpr double kScale = 1.24e-4;
  const IExp e = IExp::of(kScale);
  double worst = 0;
  for (int x = 0; x * kScale < 20; ++x) {
    worst = std::max(worst, std::abs(e(-x) / e(0) / std::exp(-x * kScale) - 1));
  }
  EXPECT_LT(worst, 5e-3);
  EXPECT_GT(worst, 2e-3) << "better than the polynomial can be: not i-exp";
}

TEST(IExp, IsDefinedAtAnyScale) {
  for (double scale : {0.0, 1e-12, 1e-3, 1.0, 100.0}) {
    const IExp e = IExp::of(scale);
    ASSERT_GT(e(0), 0) << "scale " << scale;
    for (double x : {0.0, -1.0, -1e3, -4e6}) {
      ASSERT_GE(e(x), 0) << "scale " << scale << ", x " << x;
      ASSERT_LE(e(x), e(0)) << "scale " << scale << ", x " << x;
    }
  }
}

TEST(Dyadic, RoundsTheProductWithTheRatio) {
  for (double ratio : {1e-4, 0.3, 0.5, 1.0, 3.0, 100.0}) {
    const Dyadic d = Dyadic::of(ratio);
    for (std::int64_t x : {-1000000, -12345, -1, 0, 1, 77, 987654}) {
      ASSERT_NEAR(static_cast<double>(d(x)), static_cast<double>(x) * ratio, 0.501)
          << "ratio " << ratio << ", x " << x;
    }
  }
}

TEST(IBert, OneKeyHasWeightOneAndEqualKeysShareIt) {
  const auto s = IBertScheme<ScalarLane>::prepare(benchmark_scales());
  EXPECT_EQ(softmax(s, {5000}).front(),
            255);  // 256 would be 1; the floors of reciprocal and product lose one
  for (std::int32_t p : softmax(s, std::vector<std::int32_t>(16, -77)))
    EXPECT_NEAR(p, 16, 1);  // floors: never above
}

TEST(IBert, FarKeysHaveWeightZero) {
  const auto s = IBertScheme<ScalarLane>::prepare(benchmark_scales());
  const auto p = softmax(s, {0, -1000000});  // 124 nats
  EXPECT_EQ(p[0], 255);
  EXPECT_EQ(p[1], 0);
}

TEST(FqVit, WeightsArePowersOfTwo) {
  const auto s = FqVitScheme<ScalarLane>::prepare(benchmark_scales());
  for (std::int32_t p : softmax(s, std::vector<std::int32_t>(8, 123))) EXPECT_EQ(p, 1 << 12);  // 2^15 / 8
  // 12 equal keys: 1/12 has the logarithm -3.58; 12 >= 1.5 * 8 rounds it to -4.
  for (std::int32_t p : softmax(s, std::vector<std::int32_t>(12, 123))) EXPECT_EQ(p, 1 << 11);
  for (std::int32_t p : softmax(s, std::vector<std::int32_t>(11, 123))) EXPECT_EQ(p, 1 << 12);
}

TEST(FqVit, WeightsBelowTwoToMinus15AreZero) {
  const auto s = FqVitScheme<ScalarLane>::prepare(benchmark_scales());
  const auto p = softmax(s, {0, -80000, -100000});  // exp(-9.9) = 2^-14.3, exp(-12.4) = 2^-17.9
  EXPECT_EQ(p[0], 1 << 15);
  EXPECT_EQ(p[1], 2);
  EXPECT_EQ(p[2], 0);
}

TEST(IVit, ScoresUseTheRangeOfTheCall) {
  const auto s = IVitScheme<ScalarLane>::prepare(benchmark_scales()).calibrated(200000);
  EXPECT_EQ(s.score(200000, 0), 127);
  EXPECT_EQ(s.score(-200000, 0), -127);
  EXPECT_EQ(s.score(50000, 0), 32);  // 31.75
}

TEST(IVit, OneKeyHasTheLargestCode) {
  const auto s = IVitScheme<ScalarLane>::prepare(benchmark_scales()).calibrated(200000);
  EXPECT_EQ(softmax(s, {3}).front(), 127);  // 128 would be 1; the floors lose one
  const auto p = softmax(s, {100, -100});
  EXPECT_EQ(p[0], 127);
  EXPECT_EQ(p[1], 0);
}

/// All scores equal: the weights are equal too, whatever the scale that no range has defined.
TEST(IVit, ZeroRangeGivesEqualWeights) {
  const auto s = IVitScheme<ScalarLane>::prepare(benchmark_scales()).calibrated(0);
  for (std::int32_t p : softmax(s, std::vector<std::int32_t>(4, s.score(0, 0)))) EXPECT_NEAR(p, 32, 1);
}

/// Score units above 1.67 nats: as published exp(0) would be 0, and everything would be divided by it.
TEST(IBert, HugeScalesAreOneHot) {
  Prepare p = benchmark_scales();
  p.q_scale = p.k_scale = 1e4f;
  EXPECT_EQ(softmax(IBertScheme<ScalarLane>::prepare(p), {100, 40, 0}),
            (std::vector<std::int32_t>{255, 0, 0}));
  EXPECT_EQ(softmax(FqVitScheme<ScalarLane>::prepare(p), {100, 40, 0}),
            (std::vector<std::int32_t>{1 << 15, 0, 0}));
}

TEST(Standard, StoresScoresAndWeightsInF16) {
  const auto s = StandardScheme<ScalarLane>::prepare(benchmark_scales());
  EXPECT_EQ(s.score(8.0f * 2049, 0), 2048.0f);  // 2049 is no f16: ties to even
  for (float p : softmax(s, std::vector<float>(3, 1.5f))) EXPECT_EQ(p, round_to_f16(1.0f / 3));
}

}  // namespace
}  // namespace octet
