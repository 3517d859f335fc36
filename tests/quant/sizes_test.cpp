// Codes and scales of whole operands at lengths and widths around those that vectors, tiles and key blocks
// end at, against plain loops over the mean and the exponents that were written.
#include <algorithm>
#include <bit>
#include <cmath>

#include "quant/quantize.h"
#include "quant/rotate.h"
#include "quant/scales.h"
#include "tests/quant/support.h"

namespace octet::quant::testing {
namespace {

constexpr std::int64_t kTokens[] = {1, 15, 16, 17, 49, 63, 64, 65, 127, 128, 129, 197, 513};
constexpr std::int64_t kChannels[] = {1, 7, 20, 32, 48, 64, 80, 128, 160};
constexpr std::int64_t kHeads = 2;

using Rows = std::vector<std::vector<float>>;

float amax_of(const Rows& rows, std::size_t begin, std::size_t end) {
  float amax = 0;
  for (std::size_t t = begin; t < end; ++t)
    for (const float v : rows[t]) amax = std::max(amax, std::fabs(v));
  return amax;
}

/// Rows as they are before they become codes: without the mean, rotated, times 2^-exponent.
Rows steps_of(Input& in, std::int64_t h, const OperandRecipe& recipe, const QuantizedTensor& out) {
  const std::int64_t tokens = in.view.shape[2], channels = in.view.shape[3], wide = out.codes.shape[3];
  Rows rows(static_cast<std::size_t>(tokens), std::vector<float>(static_cast<std::size_t>(wide)));
  const Rotation rotation(channels, recipe.rotation_seed);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<float>& row = rows[static_cast<std::size_t>(t)];
    for (std::int64_t c = 0; c < channels; ++c) {
      row[static_cast<std::size_t>(c)] = in.at(0, h, t, c);
      if (out.mean.data)
        row[static_cast<std::size_t>(c)] -=
            static_cast<const float*>(out.mean.data)[h * out.mean.stride[1] + c];
    }
    if (recipe.rotate == Rotate::on) rotation.forward(row.data());
    for (std::int64_t c = 0; out.channel_exponent.data && c < wide; ++c)
      row[static_cast<std::size_t>(c)] *=
          std::ldexp(1.0f, -static_cast<const std::int32_t*>(
                               out.channel_exponent.data)[h * out.channel_exponent.stride[1] + c]);
  }
  return rows;
}

void expect_plain_results(const OperandRecipe& recipe, std::int64_t tokens, std::int64_t channels) {
  Input in = normal_input({1, kHeads, tokens, channels}, static_cast<unsigned>(tokens + channels));
  // A channel and a token of another size, and a token of zeros: exponents and floors have something to do.
  for (std::int64_t t = 0; t < tokens; ++t) in.at(0, 1, t, channels / 2) *= 100;
  for (std::int64_t c = 0; c < channels; ++c) {
    in.at(0, 0, tokens / 2, c) *= 1e-4f;
    in.at(0, 1, tokens - 1, c) = 0;
  }
  Output out(layout(in.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(in.view, in.dense(), recipe, out.tensor, {}).ok());
  ASSERT_TRUE(out.intact());
  const auto group = static_cast<std::size_t>(recipe.granularity == Granularity::token ? 1 : recipe.block);
  const auto block = static_cast<std::size_t>(recipe.block), count = static_cast<std::size_t>(tokens);
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const Rows rows = steps_of(in, h, recipe, out.tensor);
    for (std::size_t t = 0; t < count; ++t) {
      const std::size_t first = t / group * group, block_first = t / block * block;
      float floor = 0;
      if (recipe.block_floor_octaves > 0) {
        const float largest = amax_of(rows, block_first, std::min(block_first + block, count));
        floor = scale_floor(group_scale(largest, 0, recipe.rule, recipe.largest_code).scale,
                            recipe.block_floor_octaves);
      }
      const Scale want = group_scale(amax_of(rows, first, std::min(first + group, count)), floor, recipe.rule,
                                     recipe.largest_code);
      const auto token = static_cast<std::int64_t>(t);
      ASSERT_EQ(static_cast<float>(scale_at(out.tensor, in.dense(), 0, h, token, 0)), want.scale)
          << tokens << " tokens, " << channels << " channels, token " << t;
      for (std::size_t c = 0; c < rows[t].size(); ++c)
        ASSERT_EQ(code_at(out.tensor.codes, 0, h, token, static_cast<std::int64_t>(c)),
                  std::nearbyint(std::clamp(rows[t][c] * want.rscale, -127.0f, 127.0f)))
            << tokens << " tokens, " << channels << " channels, token " << t << ", channel " << c;
    }
  }
}

void expect_plain_results(const OperandRecipe& recipe) {
  for (const std::int64_t tokens : kTokens)
    for (const std::int64_t channels : kChannels) {
      expect_plain_results(recipe, tokens, channels);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

OperandRecipe keys_of_int8(Granularity granularity) {
  OperandRecipe recipe = recipe_of(DType::s8, granularity);
  recipe.block = 128, recipe.smooth = Smooth::mean, recipe.rotate = Rotate::on, recipe.rotation_seed = 3;
  return recipe;
}

TEST(Sizes, RotatedTokensAreThoseOfPlainLoops) {
  OperandRecipe recipe = keys_of_int8(Granularity::token);
  expect_plain_results(recipe);
  recipe.smooth = Smooth::none;
  expect_plain_results(recipe);
}

TEST(Sizes, SmoothedAndRotatedBlocksAreThoseOfPlainLoops) {
  expect_plain_results(keys_of_int8(Granularity::block));
}

TEST(Sizes, EqualisedTokensWithAFloorAreThoseOfPlainLoops) {
  OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  recipe.block = 128, recipe.equalise = Equalise::on, recipe.block_floor_octaves = 20;
  expect_plain_results(recipe);
  recipe.rule = ScaleRule::sixteenths, recipe.block_floor_octaves = 8;
  expect_plain_results(recipe);
}

}  // namespace
}  // namespace octet::quant::testing
