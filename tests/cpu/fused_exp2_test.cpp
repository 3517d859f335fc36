// The exponentials of fused steps against 2^x in double.
#include "tests/cpu/fused_exp2.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/isa.h"
#include "numerics/exp2.h"

namespace octet::testing {
namespace {

struct Set {
  Isa isa;
  void (*exp2)(const float*, float*);
};
class FusedExp2 : public ::testing::TestWithParam<Set> {
 protected:
  static constexpr int kMost = 16;
  using Numbers = std::array<float, kMost>;

  void SetUp() override {
    if (const std::string reason = refusal(GetParam().isa); !reason.empty()) GTEST_SKIP() << reason;
  }
  static Numbers exp2(const Numbers& x) {
    Numbers y{};
    const int step = GetParam().isa == Isa::avx2 ? 8 : kMost;
    for (int i = 0; i < kMost; i += step) GetParam().exp2(x.data() + i, y.data() + i);
    return y;
  }
};

/// Floats of [-126, 0), one of 101.
TEST_P(FusedExp2, StaysWithinItsError) {
  constexpr std::uint32_t kStep = 101, kLast = std::bit_cast<std::uint32_t>(-126.0f);
  double worst = 0;
  for (std::uint32_t bits = std::bit_cast<std::uint32_t>(-0.0f); bits < kLast - kMost * kStep;) {
    Numbers x;
    for (float& one : x) one = std::bit_cast<float>(bits), bits += kStep;
    const Numbers y = exp2(x);
    for (int i = 0; i < kMost; ++i) {
      const auto at = static_cast<std::size_t>(i);
      worst = std::max(worst, std::fabs(y[at] / std::exp2(static_cast<double>(x[at])) - 1));
    }
  }
  EXPECT_LE(worst, kFusedExp2Error);
}

TEST_P(FusedExp2, KeepsWhatPolynomialsDo) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::bit_cast<float>(0x7fc12345u);
  const Numbers y = exp2({0, -0.0f, -1, -126, -126.00001f, -1000, -kInf, nan, 1, 5, 32, -2, -0.0f, 0, 0, 0});
  const float want[] = {1, 1, 0.5f, 0x1p-126f, 0, 0, 0, 0, 2, 32, 0x1p32f, 0.25f, 1};
  for (std::size_t i = 0; i < std::size(want); ++i) {
    if (i == 7)
      EXPECT_TRUE(std::isnan(y[i]));
    else
      EXPECT_EQ(y[i], want[i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, FusedExp2,
                         ::testing::Values(Set{Isa::avx2, fused_exp2_avx2},
                                           Set{Isa::avx512_vnni, fused_exp2_avx512}));

}  // namespace
}  // namespace octet::testing
