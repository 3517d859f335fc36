// The harness itself: f32 attention must come out nearly exact, or no figure that it gives means anything.
#include "tests/attention/harness.h"

#include <gtest/gtest.h>

namespace octet::testing {
namespace {

constexpr double kF32Sqnr = 120;  // dB: sums of some hundred f32 products stay within about 1e-6

TEST(Harness, F32IsNearlyExact) {
  Case c = self_attention(Scheme::f32, 4, 50, 32);
  c.desc.heads_kv = 2, c.desc.tokens_k = 70, c.desc.head_dim_v = 24;
  c.desc.mask = Mask::causal;
  const Outcome result = run(c);
  EXPECT_GT(result.sqnr_db(), kF32Sqnr);
  for (std::size_t i = 0; i < result.lse.size(); ++i) {
    ASSERT_NEAR(result.lse[i], result.exact_lse[i], 1e-5) << "row " << i;
  }
}

TEST(Harness, SameSeedGivesTheSameInputsAndAnotherSeedOthers) {
  Case c = self_attention(Scheme::f32, 1, 8, 16);
  const Inputs first = random_inputs(c), again = random_inputs(c);
  c.seed = 2;
  EXPECT_EQ(first.q, again.q);
  EXPECT_NE(first.q, random_inputs(c).q);
}

}  // namespace
}  // namespace octet::testing
