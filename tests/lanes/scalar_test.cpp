// ScalarLane against models written another way, at the edges where C++ itself says nothing.
#include "lanes/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace octet {
namespace {

using L = ScalarLane;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();

TEST(ScalarLane, RintEqualsTheLibraryForEveryExponentAndEveryHalf) {
  std::mt19937 random(7);
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (int i = 0; i < 4000; ++i) {
      const float x = float_of((exponent << 23) | (static_cast<std::uint32_t>(random()) & 0x807fffffu));
      if (std::isnan(x)) continue;
      ASSERT_EQ(bits_of(L::rint(x)), bits_of(std::rint(x))) << std::hexfloat << x;
    }
  }
  for (int i = -100000; i <= 100000; ++i) {
    const float x = 0.5f * static_cast<float>(i);
    ASSERT_EQ(bits_of(L::rint(x)), bits_of(std::rint(x))) << x;
  }
  EXPECT_TRUE(std::isnan(L::rint(kNan)));
}

TEST(ScalarLane, MinAndMaxReturnTheSecondWhereUnordered) {
  EXPECT_EQ(L::min(kNan, 1.0f), 1.0f);
  EXPECT_TRUE(std::isnan(L::min(1.0f, kNan)));
  EXPECT_EQ(L::max(kNan, 1.0f), 1.0f);
  EXPECT_TRUE(std::isnan(L::max(1.0f, kNan)));
  EXPECT_EQ(L::min(-2.0f, 3.0f), -2.0f);
  EXPECT_EQ(L::max(-2.0f, 3.0f), 3.0f);
}

TEST(ScalarLane, FloatToIntegerRoundsToEvenAndSaturates) {
  EXPECT_EQ(L::to_i32(2.5f), 2);
  EXPECT_EQ(L::to_i32(-3.5f), -4);
  EXPECT_EQ(L::to_i32(2147483520.0f), 2147483520);
  EXPECT_EQ(L::to_i32(2147483648.0f), kMost);
  EXPECT_EQ(L::to_i32(-2147483648.0f), kLeast);
  EXPECT_EQ(L::to_i32(-kInf), kLeast);
  EXPECT_EQ(L::to_i32(kInf), kMost);
  EXPECT_EQ(L::to_i32(kNan), kLeast);
}

TEST(ScalarLane, EightBitCodesAreRoundedThenSaturated) {
  for (int i = -2000; i <= 2000; ++i) {
    const float x = 0.25f * static_cast<float>(i);
    const double rounded = std::nearbyint(static_cast<double>(x));
    ASSERT_EQ(L::to_u8(x), std::fmin(std::fmax(rounded, 0), 255)) << x;
    ASSERT_EQ(L::to_s8(x), std::fmin(std::fmax(rounded, -128), 127)) << x;
    ASSERT_EQ(L::to_u8_i32(i), std::min(std::max(i, 0), 255)) << i;
    ASSERT_EQ(L::to_s8_i32(i), std::min(std::max(i, -128), 127)) << i;
  }
  EXPECT_EQ(L::to_u8(kInf), 255);
  EXPECT_EQ(L::to_u8(kNan), 0);
  EXPECT_EQ(L::to_s8(-kInf), -128);
  EXPECT_EQ(L::to_s8(kNan), -128);
  EXPECT_EQ(L::to_u8_i32(kLeast), 0);
  EXPECT_EQ(L::to_s8_i32(kMost), 127);
}

TEST(ScalarLane, IntegerArithmeticWrapsModulo2To32) {
  EXPECT_EQ(L::add_i32(kMost, 1), kLeast);
  EXPECT_EQ(L::sub_i32(kLeast, 1), kMost);
  EXPECT_EQ(L::mul_i32(65536, 65537), 65536);
  EXPECT_EQ(L::mul_i32(kLeast, -1), kLeast);
  EXPECT_EQ(L::add_i64(std::numeric_limits<std::int64_t>::max(), 1),
            std::numeric_limits<std::int64_t>::min());
}

TEST(ScalarLane, ShiftAmountsAreClampedAndNegativeOnesAreHuge) {
  for (std::uint32_t s = 0; s < 100; ++s) {
    const int doublings = static_cast<int>(std::min(s, 64u));
    const double power = std::ldexp(1.0, doublings);
    ASSERT_EQ(L::sra_i32(-12345, s), std::floor(-12345 / power)) << s;
    ASSERT_EQ(L::sra_i32(kMost, s), std::floor(kMost / power)) << s;
    ASSERT_EQ(L::srl_u32(0xfedcba98u, s), std::floor(0xfedcba98u / power)) << s;
    ASSERT_EQ(L::srl_u16(0xfedc, s), std::floor(0xfedc / power)) << s;
    ASSERT_EQ(L::shl_i32(1, s), s < 31 ? 1 << s : (s == 31 ? kLeast : 0)) << s;
  }
  const auto negative = static_cast<std::uint32_t>(-1);
  EXPECT_EQ(L::sra_i32(-5, negative), -1);
  EXPECT_EQ(L::sra_i32(5, negative), 0);
  EXPECT_EQ(L::shl_i32(5, negative), 0);
  EXPECT_EQ(L::sra_i64(-5, 64), -1);
  EXPECT_EQ(L::sra_i64(-5, 1), -3);
  EXPECT_EQ(L::shl_i64(3, 62), std::numeric_limits<std::int64_t>::min() + (std::int64_t{1} << 62));
  EXPECT_EQ(L::shl_i64(3, 64), 0);
}

TEST(ScalarLane, HighHalvesAreThoseOfTheWideProduct) {
  std::mt19937 random(11);
  for (int i = 0; i < 100000; ++i) {
    const std::uint32_t a = random() >> (random() % 32), b = random() >> (random() % 32);
    const auto sa = static_cast<std::int32_t>(a), sb = static_cast<std::int32_t>(b);
    ASSERT_EQ(L::mulhi_u32(a, b), static_cast<std::uint32_t>((static_cast<__uint128_t>(a) * b) >> 32))
        << a << " " << b;
    ASSERT_EQ(L::mulhi_i32(sa, sb), std::floor(static_cast<long double>(sa) * sb / 4294967296.0L))
        << sa << " " << sb;
    ASSERT_EQ(L::mul_wide(sa, sb), static_cast<std::int64_t>(static_cast<long double>(sa) * sb))
        << sa << " " << sb;
    const auto ua = static_cast<std::uint16_t>(a), ub = static_cast<std::uint16_t>(b);
    ASSERT_EQ(L::mulhi_u16(ua, ub), std::floor(1.0 * ua * ub / 65536)) << ua << " " << ub;
    ASSERT_EQ(L::adds_u16(ua, ub), std::min(ua + ub, 65535));
    ASSERT_EQ(L::sub_u16(ua, ub), (ua - ub) & 65535);
  }
  EXPECT_EQ(L::mulhi_u16(65535, 65535), 65534);
  EXPECT_EQ(L::mulhi_i32(kLeast, kLeast), 1 << 30);
}

TEST(ScalarLane, LeadingZerosOfEveryPowerOfTwoAndItsNeighbours) {
  EXPECT_EQ(L::clz_u32(0), 32u);
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    const std::uint32_t low = 1u << bit;
    EXPECT_EQ(L::clz_u32(low), 31 - bit);
    EXPECT_EQ(L::clz_u32(low | (low - 1)), 31 - bit);
  }
}

}  // namespace
}  // namespace octet
