// Several features at once (tests/attention/combinations.h) on every instruction set that this processor has:
// the reference's bits from integer schemes, every element of the others within its bound, and what one
// backend refuses refused by all.
#include "tests/attention/combinations.h"

#include <gtest/gtest.h>

#include "tests/cpu/on_set.h"

namespace octet::testing {
namespace {

class Combinations : public OnSet {
 protected:
  /// Whether the call was computed.
  bool expect_agreement(Scheme scheme, Combination made) const {
    const std::string where = std::string(name_of(scheme)) + ", " + made.what;
    made.call.options.backend = "reference";
    const Output want = run(made.call, scheme);
    made.call.options.backend = std::string(cpu::name_of(GetParam()));
    const Output got = run(made.call, scheme);
    EXPECT_EQ(got.status.code(), want.status.code())
        << where << ": " << want.status.message() << " and " << got.status.message();
    if (!want.status.ok() || !got.status.ok()) return false;
    if (allowance(scheme) == 0) {
      EXPECT_TRUE(same_bits(got.o, want.o)) << where << ": off by " << relative_error(got.o, want.o);
      EXPECT_TRUE(same_bits(got.lse, want.lse)) << where << ": LSE";
    } else {
      constexpr double kOfScores = 0x1p-20;  // their sums go in another order
      EXPECT_LE(largest_difference(got.lse, want.lse),
                3 * allowance(scheme) + kOfScores * (1 + largest_size(want.lse)))
          << where << ": LSE";
    }
    EXPECT_EQ(fault_in(made, scheme, got), "") << where;
    return true;
  }
};

TEST_P(Combinations, GiveTheReferencesBitsOrKeepTheirBounds) {
  const auto [first, last] = seeds(24);
  for (const Scheme scheme : fused()) {
    std::uint64_t computed = 0;
    for (std::uint64_t seed = first; seed <= last; ++seed)
      computed += expect_agreement(scheme, combination(scheme, seed)) ? 1 : 0;
    EXPECT_GE(2 * computed, last - first + 1) << name_of(scheme) << " refuses most";
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Combinations, every_set(), name_of_set);

}  // namespace
}  // namespace octet::testing
