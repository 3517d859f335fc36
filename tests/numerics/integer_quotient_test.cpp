#include "numerics/integer_quotient.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace octet::integer {
namespace {

void expect_quotient(std::int64_t n, std::int64_t d) {
  if (n / d < std::int64_t{1} << 31) {
    ASSERT_EQ(quotient(n, d), n / d) << n << " / " << d;
  }
}

TEST(IntegerQuotient, DividesSmallNumbers) {
  for (std::int64_t d = 1; d <= 200; ++d)
    for (std::int64_t n = 0; n <= 2000; ++n) expect_quotient(n, d);
}

// As the reciprocal of a row's sum.
TEST(IntegerQuotient, DividesTheLargestNumbers) {
  std::mt19937_64 random(1);
  constexpr std::int64_t kUnit = 1157442765409226768;
  for (int i = 0; i < 1000000; ++i) {
    const auto d = static_cast<std::int64_t>((random() >> 34) | (std::uint64_t{1} << 30));
    expect_quotient(kUnit + d / 2, d);
    expect_quotient((std::int64_t{1} << 61) - 1 - static_cast<std::int64_t>(random() >> 40), d);
  }
  for (std::int64_t d : {std::int64_t{1} << 30, (std::int64_t{1} << 31) - 1})
    expect_quotient(kUnit + d / 2, d);
}

TEST(IntegerQuotient, DividesOnBothSidesOfEveryMultiple) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 1000000; ++i) {
    const auto d = static_cast<std::int64_t>(random() >> (33 + random() % 31)) + 1;
    const auto q = static_cast<std::int64_t>(random() >> (33 + random() % 31));
    if (d >= std::int64_t{1} << 31) continue;
    expect_quotient(q * d, d);
    expect_quotient(q * d + d - 1, d);
  }
}

}  // namespace
}  // namespace octet::integer
