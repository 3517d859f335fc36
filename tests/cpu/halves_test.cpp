// Products of bf16 and the weights around them (src/cpu/avx512_bf16): what they leave out, and that no row
// sees it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cpu/on_set.h"

namespace octet::testing {
namespace {

class Halves : public OnSet {
 protected:
  void SetUp() override {
    OnSet::SetUp();
    if (!IsSkipped() && !has(Scheme::bf16)) GTEST_SKIP() << "the set leaves bf16 to another";
  }

  Output on_set(Call call, Scheme scheme) const {
    call.options.backend = std::string(cpu::name_of(GetParam()));
    return run(call, scheme);
  }

  void expect_within_the_bound(const Call& call, const std::string& what) const {
    const Output exact = run(call, Scheme::exact), bound = error_bound(call, Scheme::bf16);
    Output got = on_set(call, Scheme::bf16);
    ASSERT_TRUE(exact.status.ok() && bound.status.ok() && got.status.ok()) << what;
    got.o.each([&](float& x, auto b, auto h, auto i, auto c) {
      const float error = std::fabs(x - exact.o.at(b, h, i, c));
      EXPECT_LE(error, bound.o.at(b, h, i, c)) << what << ", row " << i << ", channel " << c;
    });
  }
};

TEST_P(Halves, StaysWithinTheBoundOfEveryElement) {
  for (std::int64_t d : {1, 2, 3, 17, 64, 127})
    for (std::int64_t n : {1, 2, 31, 49, 513}) {
      Call call = normal_call(1, 2, 14, n, d, static_cast<std::uint64_t>(n + d));
      const std::string shape = std::to_string(n) + " keys, dim " + std::to_string(d);
      expect_within_the_bound(call, shape);
      call.options.mask = Mask::causal;
      expect_within_the_bound(call, "causal, " + shape);
      call.q.each([](float& x, auto...) { x *= 64; });
      expect_within_the_bound(call, "far scores, " + shape);
    }
}

/// vdpbf16ps takes numbers below 2^-126 for zero, which the bound counts.
TEST_P(Halves, MayTakeSubnormalsForZero) {
  constexpr float kSubnormal = 0x1p-130f;
  Call call = normal_call(1, 1, 13, 50, 20);
  call.v.each([](float& x, auto...) { x *= kSubnormal; });
  expect_within_the_bound(call, "V");
  if (GetParam() == cpu::Isa::avx512_bf16) {
    Output got = on_set(call, Scheme::bf16);
    got.o.each([](float& x, auto...) { EXPECT_EQ(x, 0); });
  }
  call = normal_call(1, 1, 13, 50, 20);
  call.q.each([](float& x, auto...) { x *= kSubnormal; });
  call.k.each([](float& x, auto...) { x *= 0x1p126f; });
  expect_within_the_bound(call, "Q, which meets large K");
}

/// What a hidden key's scores are changes no row, not even those of the keys in the same vector.
TEST_P(Halves, LeavesOutHiddenKeysWhateverTheyHold) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for (std::int64_t key : {40, 41, 48}) {
      Call call = normal_call(1, 1, 50, 50, 19);
      call.options.mask = Mask::causal;
      const Output clean = on_set(call, Scheme::bf16);
      for (std::int64_t c = 0; c < 19; ++c) call.k.at(0, 0, key, c) = poison;
      const Output got = on_set(call, Scheme::bf16);
      ASSERT_TRUE(clean.status.ok() && got.status.ok());
      for (std::int64_t i = 0; i < key; ++i)
        EXPECT_EQ(got.o.at(0, 0, i, 0), clean.o.at(0, 0, i, 0)) << poison << ", row " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, Halves, every_set(), name_of_set);

}  // namespace
}  // namespace octet::testing
