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

/// Nor do its values where a bias hides it: its weight is 0, and not the least number there is.
TEST_P(Halves, GivesKeysThatABiasHidesNoWeight) {
  constexpr float kHuge = 0x1p127f;
  const auto call_of = [](bool by_mask, float hidden_v) {
    Call call = normal_call(1, 1, 13, 50, 20);
    const auto hides = [](std::int64_t i, std::int64_t j) { return (i + 3 * j) % 5 == 0 || j >= 40; };
    if (by_mask) {
      call.mask.resize(13 * 50);
      for (std::int64_t i = 0; i < 13; ++i)
        for (std::int64_t j = 0; j < 50; ++j)
          call.mask[static_cast<std::size_t>(i * 50 + j)] = hides(i, j) ? 0 : 1;
    } else {
      call.bias = Tensor(1, 1, 13, 50);
      call.bias.each([&](float& x, auto, auto, std::int64_t i, std::int64_t j) {
        x = hides(i, j) ? -std::numeric_limits<float>::infinity() : 0.25f;
      });
    }
    for (std::int64_t c = 0; c < 20; ++c) call.v.at(0, 0, 45, c) = hidden_v;
    return call;
  };
  for (const Scheme scheme : {Scheme::bf16, Scheme::f32})
    for (const bool by_mask : {true, false}) {
      if (!has(scheme)) continue;
      Output clean = on_set(call_of(by_mask, 0), scheme), got = on_set(call_of(by_mask, kHuge), scheme);
      ASSERT_TRUE(clean.status.ok() && got.status.ok()) << clean.status.message();
      got.o.each([&](float& x, auto b, auto h, auto i, auto c) {
        EXPECT_EQ(x, clean.o.at(b, h, i, c)) << (by_mask ? "mask" : "bias") << ", row " << i;
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, Halves, every_set(), name_of_set);

}  // namespace
}  // namespace octet::testing
