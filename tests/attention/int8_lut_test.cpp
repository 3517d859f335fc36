// int8_lut: what a table of so many bits costs in attention.
#include <gtest/gtest.h>

#include "tests/attention/distributions.h"

namespace octet::testing {
namespace {

constexpr std::int64_t kTableKeys = 2048;

double error_with(SchemeOptions::Table table, int bits, std::string_view kind = "normal") {
  Case c = self_attention(Scheme::int8_lut, 1, kTableKeys, 64);
  c.desc.tokens_q = 32;
  c.desc.options.table = table, c.desc.options.table_bits = bits;
  return run(c, distribution(kind, 1, 32, kTableKeys, 64)).error().relative_rmse();
}

using Table = SchemeOptions::Table;

/// The finest table of each kind leaves the error of the 8-bit codes; a coarse direct table adds its own.
TEST(Int8Lut, TenBitsAreEnoughForTheDirectTableAndEightAreNot) {
  const double codes_alone = error_with(Table::range, 12);
  EXPECT_LT(error_with(Table::direct, 10), 1.1 * codes_alone);
  EXPECT_GT(error_with(Table::direct, 6), 1.5 * codes_alone);
}

TEST(Int8Lut, InterpolationAndRangeReductionNeedFewerBits) {
  const double codes_alone = error_with(Table::range, 12);
  EXPECT_LT(error_with(Table::linear, 6), 1.1 * codes_alone);
  EXPECT_LT(error_with(Table::range, 3), 1.1 * codes_alone);
}

TEST(Int8Lut, EveryTableSizeGivesAValidResult) {
  for (Table table : {Table::direct, Table::linear, Table::range}) {
    for (int bits : {3, 4, 8, 15, 16})
      EXPECT_LT(error_with(table, bits), 0.6) << static_cast<int>(table) << ", " << bits;
  }
}

}  // namespace
}  // namespace octet::testing
