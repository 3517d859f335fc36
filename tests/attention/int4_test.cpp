// int4: 4-bit Q and K are usable with smoothing and rotation, and how much worse than 8 bits they are.
#include <gtest/gtest.h>

#include "tests/attention/distributions.h"

namespace octet::testing {
namespace {

double error_of(Scheme scheme, const Recipe& recipe, std::string_view kind) {
  Case c = self_attention(scheme, 1, 4096, 64);
  c.desc.tokens_q = 64, c.desc.recipe = recipe;
  return run(c, distribution(kind, 1, 64, 4096, 64)).error().relative_rmse();
}

TEST(Int4, NormalInputsGiveAnErrorOfASixthToAFifth) {
  const double error = error_of(Scheme::int4, scheme_info(Scheme::int4).recipe, "normal");
  EXPECT_GT(error, 8 * error_of(Scheme::int8, scheme_info(Scheme::int8).recipe, "normal"));
  EXPECT_LT(error, 0.22);
}

TEST(Int4, NeedsSmoothingWhereKHasAConstantInItsChannels) {
  const Recipe full = scheme_info(Scheme::int4).recipe;
  Recipe unsmoothed = full;
  unsmoothed.smooth = Smooth::none;
  EXPECT_GT(error_of(Scheme::int4, unsmoothed, "biasK"), 1.5 * error_of(Scheme::int4, full, "biasK"));
}

}  // namespace
}  // namespace octet::testing
