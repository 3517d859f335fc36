// Every scheme against float64 on every feature of attention: masks, windows, GQA, cross lengths, varlen,
// bias, strides, odd lengths and head dims. Inputs are N(0, 1); tolerances are those of each scheme's
// formats.
#include <gtest/gtest.h>

#include "core/schemes.h"
#include "numerics/contract.h"
#include "tests/attention/features.h"

namespace octet::testing {
namespace {

bool refuses(Scheme scheme, const Call& call) {
  return call.bias.size(3) > 0 && !scheme_info(scheme).additive_bias;
}

void expect_close(Scheme scheme, const Call& call, const std::string& what) {
  const Output got = run(call, scheme), exact = run(call, Scheme::exact);
  const std::string where = std::string(scheme_info(scheme).name) + ", " + what;
  if (refuses(scheme, call)) {
    EXPECT_EQ(got.status.code(), Code::unsupported) << where;
    return;
  }
  ASSERT_TRUE(got.status.ok()) << where << ": " << got.status.message();
  ASSERT_TRUE(exact.status.ok()) << where << ": " << exact.status.message();
  EXPECT_LE(relative_error(got.o, exact.o), tolerance(scheme).o) << where;
  EXPECT_LE(largest_difference(got.lse, exact.lse), tolerance(scheme).lse) << where << ": LSE";
  EXPECT_TRUE(got.o.intact() && got.lse.intact()) << where << ": written outside the output";
}

class Grid : public ::testing::TestWithParam<Scheme> {};

TEST_P(Grid, EveryFeatureMatchesExactAttention) {
  for (const Feature& f : features()) expect_close(GetParam(), f.make(), f.name);
}

TEST_P(Grid, EveryLengthFromOneTo300) {
  for (std::int64_t n = 1; n <= 300; ++n) {
    expect_close(GetParam(), normal_call(1, 1, n % 37 + 16, n, 16, static_cast<std::uint64_t>(n)),
                 "keys " + std::to_string(n));
  }
}

TEST_P(Grid, HeadDimsFromOneTo256) {
  for (std::int64_t d :
       {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48, 64, 72, 80, 96, 100, 127, 128, 129, 160, 192, 255, 256}) {
    expect_close(GetParam(), normal_call(1, 1, 24, 140, d), "dim " + std::to_string(d));
  }
}

TEST_P(Grid, RowsWithoutKeysAreZeroAndTheirLseMinusInfinity) {
  Call call = normal_call(1, 1, 50, 20, 16);
  call.options.mask = Mask::causal;
  const Output got = run(call, GetParam());
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  for (std::int64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(got.lse.at(0, 0, i, 0), kMinusInfinity) << "row " << i;
    for (std::int64_t c = 0; c < 16; ++c) EXPECT_EQ(got.o.at(0, 0, i, c), 0.0f) << "row " << i;
  }
}

/// One key 12.5 nats above all others among 65536: it holds 80 % of the weight.
TEST_P(Grid, NeedleAmong65536Keys) {
  constexpr std::int64_t kKeys = 65536, kDim = 16, kAt = kKeys / 3;
  Random random(3);
  const Matrix u = direction(random, kDim);
  Call call = normal_call(1, 1, 2, kKeys, kDim);
  call.q.each([&](float& x, auto, auto, auto, std::int64_t c) {
    x = static_cast<float>(5 * u.at[static_cast<std::size_t>(c)]);
  });
  call.k.each([&](float& x, auto, auto, std::int64_t t, std::int64_t c) {
    x = t == kAt ? static_cast<float>(2.5 * 4 * u.at[static_cast<std::size_t>(c)]) : 0.05f * x;
  });
  const Output got = run(call, GetParam()), exact = run(call, Scheme::exact);
  ASSERT_TRUE(got.status.ok() && exact.status.ok()) << got.status.message();
  // A scheme whose 8-bit P has no code for the other keys gives all the weight to the needle: 1 / 0.8 of the
  // output.
  EXPECT_LE(relative_error(got.o, exact.o), GetParam() == Scheme::ivit ? 0.95 : 0.3);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Grid, ::testing::ValuesIn(schemes()),
                         [](const auto& param) { return std::string(scheme_info(param.param).name); });

}  // namespace
}  // namespace octet::testing
