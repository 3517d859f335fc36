// Rows at the edges of f32: zeros, subnormals, the largest values, NaN and Inf; floors and powers of two.
#include <bit>
#include <cmath>
#include <limits>

#include "quant/scales.h"
#include "tests/quant/support.h"

namespace octet::quant::range_test {
namespace {

using namespace testing;

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

TEST(QuantizeRange, ZeroSubnormalAndLargestRowsHaveValidCodes) {
  const float sizes[] = {0.0f, kTiny, 100 * kTiny, 0x1p-127f, 0x1p-120f, 0x1p-90f, 1.0f, kMax};
  for (const DType format : kCodeFormats) {
    for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::power_of_two, ScaleRule::sixteenths}) {
      Input x = normal_input({1, 1, 8, 16}, 20);
      for (std::int64_t t = 0; t < 8; ++t)
        for (std::int64_t c = 0; c < 16; ++c) {
          x.at(0, 0, t, c) = sizes[t] * (c == 3 ? 1.0f : c == 4 ? -1.0f : std::fmod(x.at(0, 0, t, c), 1.0f));
        }
      OperandRecipe recipe = recipe_of(format, Granularity::token);
      recipe.rule = rule;
      Output out(layout(x.view.shape, recipe, 0));
      ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
      Input back = normal_input(x.view.shape, 0);
      ASSERT_TRUE(dequantize(out.tensor, x.dense(), back.view, {}).ok());
      for (std::int64_t t = 0; t < 8; ++t) {
        const double scale = scale_at(out.tensor, x.dense(), 0, 0, t, 0);
        EXPECT_TRUE(std::isfinite(scale));
        EXPECT_TRUE(sizes[t] == 0 ? scale == 0 : scale >= 0x1p-126) << name(format) << " row " << sizes[t];
        for (std::int64_t c = 0; c < 16; ++c) {
          const double code = code_at(out.tensor.codes, 0, 0, t, c), v = x.at(0, 0, t, c);
          EXPECT_LE(std::fabs(code), recipe.largest_code);
          const double step = format == DType::s8 || format == DType::s4
                                  ? 0.5 * scale
                                  : std::max(std::fabs(v) * 0x1p-3, scale * 0x1p-10);
          // Half the smallest float: dequantising rounds to f32.
          EXPECT_LE(std::fabs(code * scale - v), step * 1.0001) << name(format) << " of " << v;
          EXPECT_LE(std::fabs(static_cast<double>(back.at(0, 0, t, c)) - v),
                    step * 1.0001 + std::fabs(v) * 1e-6 + 0x1p-149)
              << name(format) << " of " << v;
        }
      }
    }
  }
}

TEST(QuantizeRange, ScaleOfEveryPowerOfTwoRuleIsTheSmallestThatFits) {
  // Against the definition, in double: 2^e * largest >= amax > 2^(e-1) * largest.
  for (const float largest : {127.0f, 127.5f, 7.0f, 448.0f, 57344.0f}) {
    for (int exponent = -149; exponent < 128; ++exponent) {
      for (const float mantissa : {1.0f, 1.5f, 1.75f, 127.0f / 64, std::nextafter(127.0f / 64, 2.0f),
                                   std::nextafter(127.0f / 64, 1.0f), std::nextafter(2.0f, 1.0f)}) {
        const float amax = std::ldexp(mantissa, exponent);
        if (!std::isfinite(amax) || amax == 0) continue;
        const Scale s = group_scale(amax, 0, ScaleRule::power_of_two, largest);
        ASSERT_EQ(std::ldexp(1.0, std::ilogb(s.scale)), s.scale);
        ASSERT_EQ(static_cast<double>(s.rscale) * s.scale, 1.0);
        ASSERT_GE(static_cast<double>(s.scale) * largest, amax);
        if (s.scale > 0x1p-126f) {
          ASSERT_LT(static_cast<double>(s.scale) / 2 * largest, amax) << amax;
        }
      }
    }
  }
}

TEST(QuantizeRange, ScaleOfSixteenthsIsTheSmallestOfItsGridThatFits) {
  for (int exponent = -118; exponent < 128; ++exponent) {
    for (int step = 0; step < 512; ++step) {
      const float amax = std::ldexp(1 + static_cast<float>(step) / 512, exponent);
      const Scale s = group_scale(amax, 0, ScaleRule::sixteenths, 127);
      const float power =
          std::ldexp(1.0f, static_cast<int>(std::ceil(std::log2(static_cast<double>(s.scale)))));
      const double g = std::rint(16.0 * power / s.scale);
      ASSERT_TRUE(g >= 16 && g <= 31) << amax;
      ASSERT_EQ(s.scale, power * (16.0f / static_cast<float>(g))) << amax;
      ASSERT_GE(16.0 * power / g * 127, amax);
      ASSERT_LT(16.0 * power / (g + 1) * 127, amax) << "the next finer scale would hold " << amax << " too";
      ASSERT_LE(std::rint(amax * s.rscale), 127);
    }
  }
}

TEST(QuantizeRange, AFloorMayComeAfterTheScale) {
  // What rows that are read once count on: the same bits, of scales below the floor, at it and above, and of
  // none.
  for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::power_of_two, ScaleRule::sixteenths})
    for (int exponent = -149; exponent < 128; ++exponent)
      for (const float amax : {0.0f, std::ldexp(1.0f, exponent), std::ldexp(1.7f, exponent)}) {
        const Scale alone = group_scale(amax, 0, rule, 127);
        for (const float largest : {0.0f, amax, amax * 3, amax * 1.1e6f, 0x1p-130f, 1.5f}) {
          if (!std::isfinite(largest)) continue;
          const float floor = scale_floor(group_scale(largest, 0, rule, 127).scale, 20);
          const Scale want = group_scale(amax, floor, rule, 127), s = at_least(alone, floor);
          ASSERT_EQ(std::bit_cast<std::uint32_t>(s.scale), std::bit_cast<std::uint32_t>(want.scale))
              << amax << ' ' << floor;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(s.rscale), std::bit_cast<std::uint32_t>(want.rscale))
              << amax << ' ' << floor;
        }
      }
}

TEST(QuantizeRange, NoScaleIsBelowTheFloorWhoseAmaxIsNoMoreOctavesBelow) {
  // At the border, one step below and above it, of every exponent; and below it some are.
  int below = 0;
  for (const ScaleRule rule : {ScaleRule::nearest, ScaleRule::power_of_two, ScaleRule::sixteenths})
    for (const int octaves : {1, 4, 20})
      for (int exponent = -149; exponent < 128; ++exponent)
        for (const float mantissa : {1.0f, 1.1f, 1.7f, 1.9999999f}) {
          const float largest = std::ldexp(mantissa, exponent), border = std::ldexp(largest, -octaves);
          const float floor = scale_floor(group_scale(largest, 0, rule, 127).scale, octaves);
          for (const float amax :
               {0.0f, std::nextafter(border, 0.0f), border, std::nextafter(border, HUGE_VALF), border * 0.9f,
                border * 1.5f, largest}) {
            const bool is_below = group_scale(amax, 0, rule, 127).scale < floor;
            below += is_below ? 1 : 0;
            ASSERT_TRUE(!is_below || may_be_below_floor(amax, largest, octaves)) << amax << ' ' << largest;
          }
          ASSERT_FALSE(may_be_below_floor(largest, largest, octaves));
        }
  EXPECT_GT(below, 0);
}

TEST(QuantizeRange, NanAndInfAreReportedWithTheirPlaceAndStayInTheirRow) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const DType format : {DType::s8, DType::s4}) {
      for (const Granularity granularity : kGranularities) {
        Input x = normal_input({2, 2, 20, 16}, 21);
        Input clean = x;
        clean.view.data = clean.values.data();
        for (std::int64_t c = 0; c < 16; ++c) clean.at(1, 0, 7, c) = 0;
        x.at(1, 0, 7, 5) = bad;
        const OperandRecipe recipe = recipe_of(format, granularity);
        Output out(layout(x.view.shape, recipe, 0)), expected(layout(x.view.shape, recipe, 0));
        const Status status = quantize(x.view, x.dense(), recipe, out.tensor, {});
        EXPECT_EQ(status.code(), Code::non_finite);
        EXPECT_NE(status.message().find("batch 1, head 0, token 7, channel 5"), std::string::npos)
            << status.message();
        // All else is as if that token were zero.
        ASSERT_TRUE(quantize(clean.view, x.dense(), recipe, expected.tensor, {}).ok());
        EXPECT_EQ(out.content(), expected.content()) << name(format) << " per " << name(granularity);
      }
    }
  }
}

TEST(QuantizeRange, TheFirstBadElementIsNamedWhateverTheThreads) {
  Input x = normal_input({2, 4, 20, 16}, 22);
  x.at(1, 3, 2, 1) = NAN;
  x.at(0, 2, 9, 4) = NAN;
  x.at(0, 2, 8, 5) = INFINITY;
  const OperandRecipe recipe = recipe_of(DType::s8, Granularity::tensor);
  Output out(layout(x.view.shape, recipe, 0));
  const Status status = quantize(x.view, x.dense(), recipe, out.tensor, {});
  EXPECT_NE(status.message().find("batch 0, head 2, token 8, channel 5"), std::string::npos)
      << status.message();
}

TEST(QuantizeRange, FloatFormatsKeepNanAndInfInTheirElement) {
  for (const DType format : {DType::e4m3, DType::e5m2, DType::f16, DType::bf16, DType::f32}) {
    for (const Granularity granularity : kGranularities) {
      Input x = normal_input({1, 2, 20, 16}, 23);
      const OperandRecipe recipe = recipe_of(format, granularity);
      Output expected(layout(x.view.shape, recipe, 0));
      x.at(0, 1, 7, 5) = x.at(0, 1, 7, 6) = 0;
      ASSERT_TRUE(quantize(x.view, x.dense(), recipe, expected.tensor, {}).ok());
      x.at(0, 1, 7, 5) = NAN;
      x.at(0, 1, 7, 6) = -INFINITY;
      Output out(layout(x.view.shape, recipe, 0));
      ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t t = 0; t < 20; ++t)
          for (std::int64_t c = 0; c < 16; ++c) {
            const double code = code_at(out.tensor.codes, 0, h, t, c);
            if (h == 1 && t == 7 && c == 5) {
              EXPECT_TRUE(std::isnan(code)) << name(format);
            } else if (h == 1 && t == 7 && c == 6) {
              // e4m3 has no Inf; a channel of e5m2 that is all Inf elsewhere has scale 0 and gives NaN.
              EXPECT_TRUE(format == DType::e4m3 ? std::isnan(code) : code == -INFINITY) << name(format);
            } else {
              EXPECT_EQ(code, code_at(expected.tensor.codes, 0, h, t, c)) << name(format);
            }
          }
    }
  }
}

TEST(QuantizeRange, SmoothingOrRotatingOutOfRangeIsReportedNotWrapped) {
  Input x = normal_input({1, 1, 4, 16}, 24);
  for (std::int64_t c = 0; c < 16; ++c) x.at(0, 0, 0, c) = kMax;
  for (std::int64_t t = 1; t < 4; ++t)
    for (std::int64_t c = 0; c < 16; ++c) x.at(0, 0, t, c) = -kMax;
  OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  recipe.smooth = Smooth::mean;
  Output out(layout(x.view.shape, recipe, 0));
  const Status status = quantize(x.view, x.dense(), recipe, out.tensor, {});
  EXPECT_EQ(status.code(), Code::non_finite);
  EXPECT_NE(status.message().find("token 0"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("2^120"), std::string::npos) << status.message();
}

TEST(QuantizeRange, SmoothingAndRotationStayFiniteUpToTwoToThe120) {
  for (const std::int64_t dim : {16, 64, 128, 256}) {
    Input x = normal_input({1, 1, 4, dim}, 25);
    for (float& v : x.values) v = v < 0 ? -0x1p120f : 0x1p120f;
    for (const Smooth smooth : {Smooth::none, Smooth::mean, Smooth::anchor}) {
      OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
      recipe.smooth = smooth;
      recipe.rotate = Rotate::on;
      recipe.equalise = Equalise::on;
      Output out(layout(x.view.shape, recipe, 0));
      EXPECT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok()) << dim;
    }
  }
}

TEST(QuantizeRange, FloorsHoldAgainstTheirBlockAndTheirHead) {
  Input x = normal_input({1, 1, 40, 16}, 26);
  const auto set = [&](std::int64_t t, float size) {
    for (std::int64_t c = 0; c < 16; ++c) x.at(0, 0, t, c) = size;
  };
  for (std::int64_t t = 0; t < 40; ++t) set(t, t < 16 ? 127.0f : 127 * 0x1p-10f);
  set(3, 0.0f);
  set(4, 127 * 0x1p-15f);
  set(5, 127 * 0x1p-30f);
  set(20, 0.0f);
  for (std::int64_t t = 32; t < 40; ++t) set(t, 0.0f);

  OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  recipe.block_floor_octaves = 20;
  Output block(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, block.tensor, {}).ok());
  const auto scale = [&](const Output& out, std::int64_t t) {
    return scale_at(out.tensor, x.dense(), 0, 0, t, 0);
  };
  EXPECT_EQ(scale(block, 0), 1.0);
  EXPECT_EQ(scale(block, 3), 0x1p-20);
  EXPECT_EQ(scale(block, 4), 0x1p-15);
  EXPECT_EQ(scale(block, 5), 0x1p-20);
  EXPECT_EQ(scale(block, 20), 0x1p-30);  // of its own block's 2^-10
  EXPECT_EQ(scale(block, 35), 0.0);      // a block of zeros has nothing to refer to
  EXPECT_EQ(code_at(block.tensor.codes, 0, 0, 3, 0), 0);
  EXPECT_EQ(code_at(block.tensor.codes, 0, 0, 4, 0), 127);
  EXPECT_EQ(code_at(block.tensor.codes, 0, 0, 5, 0), 0);

  recipe.block_floor_octaves = 0;
  recipe.head_floor_octaves = 8;
  recipe.rule = ScaleRule::power_of_two;
  Output head(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, head.tensor, {}).ok());
  EXPECT_EQ(scale(head, 0), 1.0);
  EXPECT_EQ(scale(head, 25), 0x1p-8);
  EXPECT_EQ(scale(head, 35), 0x1p-8);
  EXPECT_EQ(code_at(head.tensor.codes, 0, 0, 25, 0), 32);  // 127 / 4 = 31.75
  EXPECT_EQ(code_at(head.tensor.codes, 0, 0, 35, 0), 0);
}

// An Inf beside zeros has the scale of its block's floor, whatever its neighbours are.
TEST(QuantizeRange, AnInfBesideZerosStaysInfUnderAFloor) {
  Input x = normal_input({1, 1, 40, 16}, 27);
  for (std::int64_t c = 0; c < 16; ++c)
    x.at(0, 0, 21, c) = c == 5 ? std::numeric_limits<float>::infinity() : 0;
  OperandRecipe recipe = recipe_of(DType::e5m2, Granularity::token);
  recipe.block = 40;
  recipe.block_floor_octaves = 20;
  Output out(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
  EXPECT_GT(scale_at(out.tensor, x.dense(), 0, 0, 21, 0), 0);
  EXPECT_EQ(code_at(out.tensor.codes, 0, 0, 21, 5), std::numeric_limits<double>::infinity());
  EXPECT_EQ(code_at(out.tensor.codes, 0, 0, 21, 6), 0);
}

}  // namespace
}  // namespace octet::quant::range_test
