// Windows that one launch takes from plain numbers to outputs. Skipped without a GPU.
#include "tests/cuda/plain_calls.h"

namespace octet::testing {
namespace {

using namespace plain_calls;

class PlainWindows : public PlainCalls {
 protected:
  /// Scales of K's key blocks and of V's channels.
  static Recipe of_groups() {
    Recipe recipe = scheme_info(Scheme::int8).recipe;
    recipe.k = Granularity::block, recipe.v = Granularity::channel;
    return recipe;
  }
  /// body(ask) of each scheme, in the recipe with a kernel that takes windows, and each dtype.
  template <class Body>
  static void each_scheme(const Lengths& of, const Body& body) {
    for (const DType dtype : {DType::bf16, DType::f16})
      for (Ask ask : {Ask{.scheme = Scheme::int8}, Ask{.scheme = Scheme::int8, .recipe = of_groups()},
                      Ask{.scheme = Scheme::int8_full}, Ask{.scheme = Scheme::int8_half}}) {
        ask.of = of, ask.dtype = dtype;
        ask.name = title(ask);
        body(ask);
      }
  }
};

TEST_F(PlainWindows, HaveTheOutputsOfTheHalves) {
  for (const Lengths& of : {Lengths{300, 3, 49, 49}, Lengths{7, 2, 64, 64}, Lengths{5, 4, 17, 17},
                            Lengths{3, 2, 1, 1}, Lengths{2, 2, 33, 60}, Lengths{2, 3, 64, 5},
                            Lengths{2, 3, 3, 64}, Lengths{1, 2, 32, 32}, Lengths{1, 1, 48, 63}})
    each_scheme(of, [&](const Ask& ask) { expect_same(ask); });
}

TEST_F(PlainWindows, HideKeysAndAddBiases) {
  for (const Lengths& of : {Lengths{11, 3, 49, 49}, Lengths{2, 2, 20, 64}, Lengths{2, 2, 64, 31}})
    each_scheme(of, [&](Ask ask) {
      const std::string name = ask.name;
      ask.name = name + ", causal", ask.mask = Mask::causal;
      expect_same(ask);
      ask.name = name + ", window", ask.mask = Mask::none, ask.window_left = 5, ask.window_right = 3;
      expect_same(ask);
      if (ask.recipe) return;  // by groups a call with a bias has no such kernel
      ask.name = name + ", bias", ask.window_left = ask.window_right = -1;
      ask.bias = AttentionDesc::Bias::additive;
      expect_same(ask);
      ask.name = name + ", mask", ask.bias = AttentionDesc::Bias::boolean;
      expect_same(ask);
    });
}

TEST_F(PlainWindows, MayLieTokensBeforeHeads) {
  each_scheme({9, 3, 49, 49}, [&](Ask ask) {
    ask.name += ", tokens before heads", ask.layout = Layout::bshd;
    expect_same(ask);
  });
}

TEST_F(PlainWindows, MakeZerosOfRowsThatAreNotFinite) {
  each_scheme({40, 3, 49, 49}, [&](Ask ask) {
    ask.name += ", NaN and Inf", ask.has_bad_rows = true;
    expect_same(ask);
  });
}

TEST_F(PlainWindows, GoByHalvesWhereThereIsNoKernel) {
  const auto expect_halves = [&](const Ask& ask) {
    EXPECT_FALSE(run(ask, given(ask), By::one_launch).leaves_workspace) << ask.name;
  };
  expect_halves({.name = "longer than a window", .of = {2, 2, 49, 65}});
  expect_halves({.name = "by groups, with a bias",
                 .of = {2, 2, 49, 49},
                 .recipe = of_groups(),
                 .bias = AttentionDesc::Bias::additive});
  expect_halves({.name = "another scheme", .of = {2, 2, 49, 49}, .scheme = Scheme::int8_lut});
  expect_halves(
      {.name = "LSE, which gets back what K was shifted by", .of = {2, 2, 49, 49}, .wants_lse = true});
}

}  // namespace
}  // namespace octet::testing
