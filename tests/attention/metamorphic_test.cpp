// Relations between calls that hold for attention itself, for every scheme: bit for bit where the scheme's
// arithmetic implies it, within what its formats allow elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/bits.h"
#include "core/schemes.h"
#include "numerics/bound.h"
#include "tests/attention/calls.h"

namespace octet::testing {
namespace {

bool any_of(Scheme scheme, std::initializer_list<Scheme> list) {
  return std::find(list.begin(), list.end(), scheme) != list.end();
}

class Metamorphic : public ::testing::TestWithParam<Scheme> {
 protected:
  /// Runs a call that must succeed.
  Output attend(const Call& call) const {
    Output out = run(call, GetParam());
    EXPECT_TRUE(out.status.ok()) << out.status.message();
    return out;
  }
  Output exact(const Call& call) const { return run(call, Scheme::exact); }
  Tolerance tolerance_of_scheme() const { return tolerance(GetParam()); }
};

/// Whether the row sum adds the very numbers that P.V multiplies, so that constant V comes back whatever P
/// is.
bool sums_codes(Scheme s) {
  return any_of(s, {Scheme::f32, Scheme::fp8, Scheme::int8_fp8, Scheme::int8_lut});
}

/// How far sum p v / sum p may be from v where both sums have the same p and every v is the same number, in
/// units of v. All terms are positive, so that roundings count relatively, whatever the order of a sum: those
/// of the block's products and additions, of one rescaling and one addition a block in both sums (a factor of
/// rescaling itself is the same in both), of V's scale, of its product with the code, and of the quotient.
/// These are the roundings that the error bound counts (docs/numerics/error-bounds.md).
double roundings_of_a_mean(std::int64_t keys, std::int64_t key_block) {
  const auto in_block = static_cast<double>(std::min(keys, key_block));
  const auto folds = static_cast<double>(2 * ((keys + key_block - 1) / key_block));
  return gamma(in_block + folds + 3) + gamma(in_block + folds);
}

TEST_P(Metamorphic, OnesInVGiveOnes) {
  const std::int64_t keys = many_keys(GetParam());
  Call call = normal_call(1, 2, 20, keys, 32);
  call.v.each([](float& x, auto...) { x = 1; });
  Output got = attend(call);
  // P's rounding is in the bound as if every code erred the same way. Codes of 300 random weights do not: the
  // tolerance is tens of standard deviations of the sum of their errors.
  const Output bound = error_bound(call, GetParam());
  EXPECT_TRUE(bound.status.ok()) << bound.status.message();
  got.o.each([&](float one, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
    const double allowed = sums_codes(GetParam())
                               ? roundings_of_a_mean(keys, call.options.key_block)
                               : std::min(double{bound.o.at(b, h, t, c)}, tolerance_of_scheme().o);
    EXPECT_NEAR(one, 1, allowed) << "row " << t << ", channel " << c;
  });
}

/// All keys are one and the same: every weight is equal, so that O is V's mean.
TEST_P(Metamorphic, EqualKeysGiveTheMean) {
  Call call = normal_call(1, 2, 5, many_keys(GetParam()), 32);
  call.k.each([&](float& x, auto, std::int64_t h, auto, std::int64_t c) { x = call.k.at(0, h, 0, c); });
  call.v.each([](float& x, auto...) { x += 1; });  // a mean that rounding does not hide
  const Output got = attend(call), mean = exact(call);
  EXPECT_LE(relative_error(got.o, mean.o), tolerance_of_scheme().o);
  EXPECT_LE(largest_difference(got.lse, mean.lse), tolerance_of_scheme().lse);
  // Rows differ only where P carries log2 of V's scale: its sum with the row's score is rounded.
  const double allowed = any_of(GetParam(), {Scheme::int8, Scheme::int8_shift, Scheme::int4}) ? 1e-4 : 0;
  for (std::int64_t i = 1; i < 5; ++i) {
    for (std::int64_t c = 0; c < 32; ++c)
      EXPECT_NEAR(got.o.at(0, 0, i, c), got.o.at(0, 0, 0, c), allowed) << i << ", " << c;
  }
}

TEST_P(Metamorphic, ZeroQueriesGiveTheMean) {
  if (any_of(GetParam(), {Scheme::qflash, Scheme::ivit, Scheme::ibert, Scheme::fqvit}))
    GTEST_SKIP() << "as published it divides by the scale of the scores, which is 0 here";
  Call call = normal_call(1, 2, 5, many_keys(GetParam()), 32);
  call.q.each([](float& x, auto...) { x = 0; });
  call.v.each([](float& x, auto...) { x += 1; });
  const Output got = attend(call), mean = exact(call);
  EXPECT_LE(relative_error(got.o, mean.o), tolerance_of_scheme().o);
  EXPECT_LE(largest_difference(got.lse, mean.lse), tolerance_of_scheme().lse);
}

/// Tokens whose V is zero keep their weight.
TEST_P(Metamorphic, ZeroTokensOfVKeepTheirMass) {
  Call call = normal_call(1, 2, 30, many_keys(GetParam()), 32);
  call.v.each([](float& x, auto, auto, std::int64_t t, auto) {
    x = t % 3 == 0 || t >= 256 ? 0 : x + 1;  // of 300 tokens the last key block is zero as a whole
  });
  const Output got = attend(call), want = exact(call);
  EXPECT_LE(relative_error(got.o, want.o), tolerance_of_scheme().o);
  EXPECT_LE(largest_difference(got.lse, want.lse), tolerance_of_scheme().lse);
}

TEST_P(Metamorphic, ZeroVGivesZero) {
  Call call = normal_call(1, 1, 10, 200, 16);
  call.v.each([](float& x, auto...) { x = 0; });
  const Output got = attend(call), zero = exact(call);
  EXPECT_EQ(largest_difference(got.o, zero.o), 0);
  EXPECT_LE(largest_difference(got.lse, zero.lse), tolerance_of_scheme().lse);
}

Call permuted(const Call& call, const std::vector<std::int64_t>& order) {
  Call other = call;
  for (Tensor Call::*x : {&Call::k, &Call::v}) {
    (other.*x).each([&](float& y, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c) {
      y = (call.*x).at(b, h, order[static_cast<std::size_t>(t)], c);
    });
  }
  return other;
}

std::vector<std::int64_t> shuffled(std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::mt19937_64 bits(17);
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[bits() % (i + 1)]);
  return order;
}

/// Inside one key block, where everything that is summed is an integer, the order of the keys is nothing.
TEST_P(Metamorphic, OrderOfKeysInsideABlockChangesNoBitOfIntegerSums) {
  Call call = normal_call(1, 2, 20, 128, 32);
  const Scheme s = GetParam();
  if (s == Scheme::int8_full) call.options.scheme_options.row_sum = SchemeOptions::RowSum::codes;
  const Output a = attend(call), b = attend(permuted(call, shuffled(128)));
  if (any_of(s, {Scheme::int8_full, Scheme::int8_lut, Scheme::qflash})) {
    EXPECT_TRUE(same_bits(a.o, b.o) && same_bits(a.lse, b.lse));
  } else {
    EXPECT_LE(relative_error(a.o, b.o), 2 * tolerance_of_scheme().o);
    EXPECT_LE(largest_difference(a.lse, b.lse), 2 * tolerance_of_scheme().lse);
  }
}

TEST_P(Metamorphic, OrderOfKeysAcrossBlocksMattersWithinTheFormats) {
  const std::int64_t keys = many_keys(GetParam());
  const Call call = normal_call(1, 2, 20, keys, 32);
  const Output got = attend(permuted(call, shuffled(keys))), want = exact(call);
  EXPECT_LE(relative_error(got.o, want.o), tolerance_of_scheme().o);
  EXPECT_LE(largest_difference(got.lse, want.lse), tolerance_of_scheme().lse);
}

/// A constant added to every key moves all scores of a row by the same amount: O stays, the LSE moves with
/// it.
TEST_P(Metamorphic, AConstantAddedToKCancels) {
  const Call call = normal_call(1, 2, 20, many_keys(GetParam()), 32);
  Call moved = call;
  Random random(8);
  const Matrix c0 = Matrix::normal(random, 1, 32);
  moved.k.each([&](float& x, auto, auto, auto, std::int64_t c) {
    x += static_cast<float>(4 * c0.at[static_cast<std::size_t>(c)]);
  });
  const Output got = attend(moved), want = exact(moved), before = exact(call);
  EXPECT_LE(relative_error(want.o, before.o), 1e-6) << "the promise itself";
  // Smoothing takes the constant away before K is rounded; without it K's steps are four times as wide, and a
  // 16-bit K that arrives as f32 is rounded at its larger size.
  const bool smooths = scheme_info(GetParam()).recipe.smooth != Smooth::none;
  const double wider = smooths ? 1 : 5;
  EXPECT_LE(relative_error(got.o, want.o), wider * tolerance_of_scheme().o);
  EXPECT_LE(largest_difference(got.lse, want.lse), wider * tolerance_of_scheme().lse);
}

Call scaled(const Call& call, Tensor Call::*which, float factor) {
  Call other = call;
  (other.*which).each([&](float& x, auto...) { x *= factor; });
  return other;
}

/// Q times 2^3 and K times 2^-3: the same products, and scales are proportional to what they scale.
TEST_P(Metamorphic, PowersOfTwoMovedFromKToQChangeNoBit) {
  const Call call = normal_call(1, 2, 20, many_keys(GetParam()), 32);
  const Output a = attend(call), b = attend(scaled(scaled(call, &Call::q, 8), &Call::k, 0.125f));
  if (GetParam() == Scheme::qattn) {  // one scale for Q, K and V
    EXPECT_LE(relative_error(b.o, a.o), 8 * tolerance_of_scheme().o);
  } else {
    EXPECT_TRUE(same_bits(a.o, b.o) && same_bits(a.lse, b.lse))
        << "O differs by " << largest_difference(a.o, b.o) << ", LSE by " << largest_difference(a.lse, b.lse);
  }
}

/// V times 2^5 gives O times 2^5: bit for bit unless P carries log2 of V's scale.
TEST_P(Metamorphic, APowerOfTwoInVComesOut) {
  if (GetParam() == Scheme::qattn) GTEST_SKIP() << "as published, one scale for Q, K and V";
  const Call call = normal_call(1, 2, 20, many_keys(GetParam()), 32);
  const Output a = attend(call);
  Output b = attend(scaled(call, &Call::v, 32));
  b.o.each([](float& x, auto...) { x /= 32; });
  if (any_of(GetParam(), {Scheme::int8, Scheme::int8_shift, Scheme::int4})) {
    EXPECT_LE(relative_error(b.o, a.o), 2 * tolerance_of_scheme().o);
  } else {
    EXPECT_TRUE(same_bits(a.o, b.o)) << "O differs by " << largest_difference(a.o, b.o);
  }
  EXPECT_LE(largest_difference(a.lse, b.lse), 2 * tolerance_of_scheme().lse);
}

/// A row does not depend on the other rows, heads and batch entries. Every row has the same largest number,
/// so that a scale of a head or a tensor does not tell them apart.
/// Heads of few channels, and of as many as whole register tiles have.
TEST_P(Metamorphic, ARowAloneEqualsTheRowInTheBatch) {
  if (GetParam() == Scheme::ivit) GTEST_SKIP() << "as published, one scale of scores for the whole tensor";
  for (const std::int64_t dim : {32, 64, 128}) {
    Call call = normal_call(2, 3, 40, 200, dim);
    for (Tensor Call::*x : {&Call::q, &Call::k, &Call::v}) {
      (call.*x).each([](float& y, auto, auto, auto, std::int64_t c) {
        if (c == 0) y = y > 0 ? 8.0f : -8.0f;
      });
    }
    const Output batch = attend(call);
    for (std::int64_t i : {0, 1, 31, 32, 39}) {
      SCOPED_TRACE(std::to_string(dim) + " channels, row " + std::to_string(i));
      Call alone = normal_call(1, 1, 1, 200, dim);
      alone.q.each([&](float& y, auto, auto, auto, std::int64_t c) { y = call.q.at(1, 2, i, c); });
      alone.k.each([&](float& y, auto, auto, std::int64_t t, std::int64_t c) { y = call.k.at(1, 2, t, c); });
      alone.v.each([&](float& y, auto, auto, std::int64_t t, std::int64_t c) { y = call.v.at(1, 2, t, c); });
      const Output row = attend(alone);
      EXPECT_EQ(bits_of(row.lse.at(0, 0, 0, 0)), bits_of(batch.lse.at(1, 2, i, 0)));
      for (std::int64_t c = 0; c < dim; ++c)
        EXPECT_EQ(bits_of(row.o.at(0, 0, 0, c)), bits_of(batch.o.at(1, 2, i, c))) << c;
    }
  }
}

/// What a row does not see is nothing to it: causal rows are the same bits whatever the last token's V.
TEST_P(Metamorphic, ACausalRowDoesNotSeeLaterKeys) {
  Call call = normal_call(1, 1, 200, 200, 16);
  call.options.mask = Mask::causal;
  call.k.each([&](float& x, auto, auto, std::int64_t t, std::int64_t c) {
    if (t == 199) x = call.q.at(0, 0, 199, c);  // the last row sees little else
  });
  Call other = call;
  other.v.each([](float& x, auto, auto, std::int64_t t, auto) {
    if (t == 199) x = -x;  // of the same size, so that no scale of V changes
  });
  const Output a = attend(call), b = attend(other);
  for (std::int64_t i = 0; i < 199; ++i) {
    for (std::int64_t c = 0; c < 16; ++c)
      ASSERT_EQ(bits_of(a.o.at(0, 0, i, c)), bits_of(b.o.at(0, 0, i, c))) << "row " << i << ", channel " << c;
  }
  EXPECT_FALSE(same_bits(a.o, b.o)) << "the last row must see the last key";
}

INSTANTIATE_TEST_SUITE_P(Schemes, Metamorphic, ::testing::ValuesIn(schemes()),
                         [](const auto& param) { return std::string(scheme_info(param.param).name); });

}  // namespace
}  // namespace octet::testing
