// int8_full and int8_half against the figures of INT-FlashAttention that can be reproduced.
#include <gtest/gtest.h>

#include "tests/attention/distributions.h"

namespace octet::testing {
namespace {

constexpr int kSeeds = 8;

/// QFlash's protocol: inputs uniform on (-4, 4); A2 is 6 heads of 197 tokens, d = 64; A7 24 of 49, d = 32.
double a2(Scheme s) { return pooled(self_attention(s, 6, 197, 64), kSeeds).sqnr_db(); }
double a7(Scheme s) { return pooled(self_attention(s, 24, 49, 32), kSeeds).sqnr_db(); }

TEST(Int8Full, ReproducesTheSqnrOfQFlashTable) {
  EXPECT_NEAR(a2(Scheme::int8_full), 36.92, 0.3);
  EXPECT_NEAR(a7(Scheme::int8_full), 37.80, 0.3);
}

TEST(Int8Half, ReproducesTheSqnrOfQFlashTable) {
  EXPECT_NEAR(a2(Scheme::int8_half), 38.19, 0.3);
  EXPECT_NEAR(a7(Scheme::int8_half), 39.07, 0.3);
}

/// V ~ N(mean, 1) on N(0, 0.5^2) queries and keys with softmax_scale 1, as in the comparison of the two row
/// sums.
double error_with(SchemeOptions::RowSum row_sum, std::string_view kind, float v_mean) {
  Case c = self_attention(Scheme::int8_full, 1, 4096, 64);
  c.desc.tokens_q = 64;
  c.desc.options.row_sum = row_sum;
  Inputs in = distribution(kind, 3, 64, 4096, 64);
  for (float& v : in.v) v += v_mean;
  return run(c, in).error().relative_rmse();
}

/// The code's form (unrounded weights) loses mass where codes become 0, which shows when V has a mean; the
/// paper's form gives the lost mass to the keys that are left.
TEST(Int8Full, RowSumOfCodesWinsWhereVHasAMeanAndMassIsLost) {
  constexpr float kMean = 1.0f;
  const auto weights = SchemeOptions::RowSum::weights, codes = SchemeOptions::RowSum::codes;
  EXPECT_LT(1.5 * error_with(codes, "sharp", kMean), error_with(weights, "sharp", kMean));
  EXPECT_GT(error_with(codes, "sink", 0), error_with(weights, "sink", 0));
}

/// V's scale of a key block, as in the paper's future work and its CUDA fork, against that of a head.
TEST(Int8Full, VScalesOfABlockHelpWithOutliers) {
  Case c = self_attention(Scheme::int8_full, 1, 8192, 128);
  c.desc.tokens_q = 64;
  const Inputs in = distribution("outlier", 1, 64, 8192, 128);
  const double head = run(c, in).error().relative_rmse();
  c.desc.recipe.v = Granularity::block;
  const double block = run(c, in).error().relative_rmse();
  c.desc.recipe.v = Granularity::block_channel;
  const double block_channel = run(c, in).error().relative_rmse();
  EXPECT_LT(block, head);
  EXPECT_LT(block_channel, 0.8 * block);
}

}  // namespace
}  // namespace octet::testing
