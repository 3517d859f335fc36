#include "base/divider.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace octet {
namespace {

constexpr std::uint32_t kMost = std::uint32_t{1} << 31;

void expect_quotients(std::uint32_t by, std::uint32_t n) {
  const Divider divider(by);
  ASSERT_EQ(divider.quotient(n), n / by) << n << " / " << by;
}

TEST(Divider, DividesAroundEveryMultipleOfEverySmallNumber) {
  for (std::uint32_t by = 1; by <= 300; ++by)
    for (std::uint32_t n = 0; n <= 3000; ++n) expect_quotients(by, n);
}

TEST(Divider, DividesTheLargestNumbers) {
  for (std::uint32_t by = 1; by <= 5000; ++by)
    for (std::uint32_t n : {kMost, kMost - 1, kMost / by * by, kMost / by * by - 1}) expect_quotients(by, n);
  for (std::uint32_t by : {kMost, kMost - 1, kMost / 2, kMost / 2 + 1, kMost / 3})
    for (std::uint32_t n : {std::uint32_t{0}, by - 1, by, kMost - 1, kMost}) expect_quotients(by, n);
}

TEST(Divider, DividesRandomNumbers) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    const std::uint32_t by = (random() >> (1 + random() % 31)) + 1, n = random() >> 1;
    for (std::uint32_t near : {n, n / by * by, n / by * by + by - 1})
      if (near <= kMost) expect_quotients(by, near);
  }
}

TEST(Divider, ShiftsByPowersOfTwo) {
  for (std::int32_t exponent = 0; exponent < 31; ++exponent) {
    const Divider by = Divider::power_of_two(exponent), same(std::int64_t{1} << exponent);
    EXPECT_EQ(std::int32_t{by}, std::int32_t{same});
    for (std::uint32_t n : {0u, 1u, (1u << exponent) - 1, 1u << exponent, kMost - 1, kMost}) {
      EXPECT_EQ(by.quotient(n), n >> exponent) << n << " by 2^" << exponent;
      EXPECT_EQ(by.quotient(n), same.quotient(n)) << n << " by 2^" << exponent;
    }
  }
}

TEST(Divider, StandsForItsNumber) {
  const Divider by(48);
  EXPECT_EQ(100 / by, 2);
  EXPECT_EQ(100 + by, 148);
  EXPECT_EQ((100 + by - 1) / by, 3);
  EXPECT_FALSE(std::int32_t{Divider(0)});
}

}  // namespace
}  // namespace octet
