// Every scheme's functions give the same bits in lanes as on one value, with each instruction set that this
// machine has.
#include <gtest/gtest.h>

#include "tests/lanes/instruction_sets.h"
#include "tests/lanes/vector_units.h"

namespace octet::lane_check {
namespace {

void expect_same(const Report& report) {
  EXPECT_GT(report.compared, 0);
  EXPECT_EQ(report.different, 0) << "of " << report.compared << "; the first: " << report.first;
}

TEST(SchemeLanes, FunctionsGiveTheScalarBitsWithAvx2) {
  if (!machine_has_avx2()) GTEST_SKIP() << "this machine has no AVX2";
  expect_same(schemes_of_avx2());
}

TEST(SchemeLanes, FunctionsGiveTheScalarBitsWithAvx512) {
  if (!machine_has_avx512()) GTEST_SKIP() << "this machine has no AVX-512 (F, BW, DQ, VL)";
  expect_same(schemes_of_avx512());
}

}  // namespace
}  // namespace octet::lane_check
