// The integers inside `int8` and `int8_full` on the GPU, seen from outside: calls so made that an output or
// an LSE tells each of them. Sums are the reference's bits; codes of P are the nearest integers wherever the
// roundings of the score and of the exponential leave no doubt which those are.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/schemes.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

constexpr double kLog2EF64 = 1.44269504088896340736;

class Int8Parts : public OnDevice {
 protected:
  /// P's code of a weight of 1.
  static double unit() { return GetParam() == Scheme::int8 ? 255 : 127; }

  /// The same call with one scale a token of Q and K and a head of V, and nothing done to them before.
  static Call as_codes(Call call) {
    Recipe recipe;
    recipe.v = Granularity::head;
    call.options.recipe = recipe, call.options.backend = "reference";
    return call;
  }

  static std::string where() { return std::string(scheme_info(GetParam()).name); }
};

/// Integers up to 127, the first channel of each token 127: codes of a scale of 1.
void fill_codes(Tensor& x, Random& random) {
  x.each([&](float& code, std::int64_t, std::int64_t, std::int64_t, std::int64_t c) {
    code = c == 0 ? 127.0f : std::nearbyint(static_cast<float>(random.uniform(-127, 127)));
  });
}

/// A row that sees one key has that key's score as its LSE, but for the exponential's error: the weight of a
/// key that is the only one is the unit within that, and the output its V within that and the code's.
TEST_P(Int8Parts, ScoresAreTheReferences) {
  const Call call = as_codes(normal_call(64, 2, 33, 1, 64));
  Output want = run(call, GetParam());
  const Output got = run_on_device(call, GetParam(), Operands::codes);
  ASSERT_TRUE(want.status.ok() && got.status.ok()) << want.status.message() << got.status.message();
  // The exponential, the origin's rounding (a score is below 64 octaves) and the logarithm of the sum.
  constexpr double kWeight = 0x1p-22 + 0.7 * 64 * 0x1p-24, kLse = kWeight + 64 * 0x1p-24;
  EXPECT_LE(largest_difference(got.lse, want.lse), kLse) << where();
  want.o.each([&](float& x, auto b, auto h, auto t, auto c) {
    EXPECT_NEAR(got.o.at(b, h, t, c), x, std::abs(x) * (kWeight + 4 * 0x1p-24)) << where();
  });
}

/// V is the identity: an output is its key's code over the row sum, and the largest code is that of 1.
TEST_P(Int8Parts, CodesOfPAreTheNearestIntegers) {
  constexpr std::int64_t kKeys = 64, kRows = 197;
  constexpr float kScale = 4e-5f;  // scores spread over a dozen octaves
  Call call = as_codes(normal_call(2, 3, kRows, kKeys, kKeys));
  Random random(11);
  fill_codes(call.q, random), fill_codes(call.k, random);
  call.v.each([](float& x, auto, auto, std::int64_t t, std::int64_t c) { x = t == c ? 1.0f : 0.0f; });
  call.options.softmax_scale = kScale;
  const Output got = run_on_device(call, GetParam(), Operands::codes);
  ASSERT_TRUE(got.status.ok()) << got.status.message();
  // Of 255 weights: the exponential's 2^-22, and a score's few roundings of up to 2^-24 of 20 octaves each.
  constexpr double kDoubt = 255 * (0x1p-22 + 20 * 4 * 0x1p-24 * 0.7);
  std::int64_t doubtful = 0, all = 0;
  call.q.each([&](float&, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
    if (c != 0) return;
    std::vector<double> score(kKeys);
    double largest = 0;
    for (std::int64_t j = 0; j < kKeys; ++j) {
      double sum = 0;
      for (std::int64_t d = 0; d < kKeys; ++d)
        sum += double{call.q.at(b, h, i, d)} * double{call.k.at(b, h, j, d)};
      score[static_cast<std::size_t>(j)] = sum * double{kScale} * kLog2EF64;
      largest = std::max(largest, double{got.o.at(b, h, i, j)});
    }
    const double peak = *std::max_element(score.begin(), score.end());
    for (std::int64_t j = 0; j < kKeys; ++j, ++all) {
      const double code = unit() * double{got.o.at(b, h, i, j)} / largest;
      const double exact = unit() * std::exp2(score[static_cast<std::size_t>(j)] - peak);
      ASSERT_NEAR(code, std::nearbyint(code), 1e-4) << where() << ", row " << i << ", key " << j;
      const bool doubt = std::fabs(exact - std::floor(exact) - 0.5) < kDoubt;
      doubtful += doubt;
      ASSERT_LE(std::fabs(std::nearbyint(code) - exact), doubt ? 0.5 + kDoubt : 0.5)
          << where() << ", row " << i << ", key " << j << ": code " << code << " of " << exact;
    }
  });
  EXPECT_LE(doubtful * 100, all) << "the test decides too little";
}

/// Q is zero: all codes of P are those of 1, and outputs are sums of V's codes, of four key blocks here.
TEST_P(Int8Parts, SumsOfValuesHaveTheBitsOfTheReference) {
  constexpr std::int64_t kKeys = 500;
  Call call = as_codes(normal_call(2, 2, 20, kKeys, 64));
  Random random(12);
  call.q.each([](float& x, auto...) { x = 0; });
  fill_codes(call.v, random);
  const Output want = run(call, GetParam()), got = run_on_device(call, GetParam(), Operands::codes);
  ASSERT_TRUE(want.status.ok() && got.status.ok()) << want.status.message() << got.status.message();
  EXPECT_TRUE(same_bits(got.o, want.o)) << where() << ": off by " << relative_error(got.o, want.o);
  Tensor o = got.o;
  o.each([&](float& x, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t c) {
    double sum = 0;
    for (std::int64_t j = 0; j < kKeys; ++j) sum += double{call.v.at(b, h, j, c)};
    ASSERT_NEAR(double{x}, sum / kKeys, std::fabs(sum / kKeys) * 0x1p-21)
        << where() << ", row " << i << ", channel " << c;
  });
}

INSTANTIATE_TEST_SUITE_P(Schemes, Int8Parts, ::testing::Values(Scheme::int8, Scheme::int8_full),
                         [](const auto& param) { return std::string(scheme_info(param.param).name); });

}  // namespace
}  // namespace octet::testing
