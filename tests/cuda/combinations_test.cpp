// Several features at once (tests/attention/combinations.h) on a GPU: the reference's bits from integer
// schemes, every element of the others within its bound. Without a GPU everything is skipped.
#include "tests/attention/combinations.h"

#include "core/schemes.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

class CombinationsOnDevice : public OnDevice {
 protected:
  /// Whether the call was computed; what the GPU has no kernel for it says.
  bool expect_agreement(Combination made, Operands operands) const {
    const Scheme scheme = GetParam();
    const std::string where = std::string(name_of(scheme)) + ", " + made.what +
                              (operands == Operands::codes ? ", from codes" : ", from numbers");
    const Output got = run_on_device(made.call, scheme, operands);
    made.call.options.backend = "reference";
    const Output want = run(made.call, scheme);
    EXPECT_TRUE(got.status.ok() || got.status.code() == Code::unsupported ||
                got.status.code() == want.status.code())
        << where << ": " << got.status.message() << " and " << want.status.message();
    EXPECT_TRUE(want.status.ok() || !got.status.ok()) << where << ": " << want.status.message();
    if (!want.status.ok() || !got.status.ok()) return false;
    // note: from codes the LSE gets back what K's mean takes away from Q as quantised, not from Q.
    const Recipe recipe = made.call.options.recipe.value_or(scheme_info(scheme).recipe);
    const bool compares_lse = operands != Operands::codes || recipe.smooth == Smooth::none;
    if (allowance() == 0) {
      EXPECT_TRUE(same_bits(got.o, want.o)) << where << ": off by " << relative_error(got.o, want.o);
      EXPECT_TRUE(!compares_lse || same_bits(got.lse, want.lse)) << where << ": LSE";
    } else if (compares_lse) {
      // Scores are rounded as the reference's are, some of them in another order, or cut by the matrix unit.
      const double of_scores = scheme_info(scheme).qk == DType::e4m3 ? 0x1p-9 : 0x1p-20;
      EXPECT_LE(largest_difference(got.lse, want.lse),
                lse_allowance(want) + of_scores * largest_size(want.lse))
          << where << ": LSE";
    }
    EXPECT_EQ(fault_in(made, scheme, got), "") << where;
    return true;
  }
};

TEST_P(CombinationsOnDevice, GiveTheReferencesBitsOrKeepTheirBounds) {
  const auto [first, last] = seeds(60);
  std::uint64_t computed = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed)
    for (const Operands operands : {Operands::codes, Operands::plain})
      computed += expect_agreement(combination(GetParam(), seed), operands) ? 1 : 0;
  EXPECT_GE(2 * computed, last - first + 1) << name_of(GetParam()) << " refuses most";
}

INSTANTIATE_TEST_SUITE_P(Schemes, CombinationsOnDevice, every_scheme(), name_of_scheme);

}  // namespace
}  // namespace octet::testing
