// VectorLane gives the bits of ScalarLane, verb by verb, with each instruction set that this machine has.
#include <gtest/gtest.h>

#include "tests/lanes/instruction_sets.h"
#include "tests/lanes/vector_units.h"

namespace octet::lane_check {
namespace {

void expect_same(const Report& report) {
  EXPECT_GT(report.compared, 0);
  EXPECT_EQ(report.different, 0) << "of " << report.compared << "; the first: " << report.first;
}

TEST(VectorLane, VerbsGiveTheScalarBitsWithAvx2) {
  if (!machine_has_avx2()) GTEST_SKIP() << "this machine has no AVX2";
  for (const int lanes : {8, 16}) {
    SCOPED_TRACE(lanes);
    expect_same(verbs_of_avx2(lanes));
  }
}

TEST(VectorLane, VerbsGiveTheScalarBitsWithAvx512) {
  if (!machine_has_avx512()) GTEST_SKIP() << "this machine has no AVX-512 (F, BW, DQ, VL)";
  for (const int lanes : {8, 16}) {
    SCOPED_TRACE(lanes);
    expect_same(verbs_of_avx512(lanes));
  }
}

}  // namespace
}  // namespace octet::lane_check
