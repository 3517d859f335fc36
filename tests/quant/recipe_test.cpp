// Smoothing, rotation and equalisation: each is undone exactly, in the order of operations that it documents.
#include <bit>
#include <limits>

#include "quant/equalise.h"
#include "quant/rotate.h"
#include "quant/smooth.h"
#include "tests/quant/support.h"

namespace octet::quant {
namespace {

using namespace testing;

constexpr float kMax = std::numeric_limits<float>::max();

// The transform by its definition in double: entry (i, j) of H is -1 to the number of common bits.
std::vector<double> rotated(const std::vector<double>& x, std::int64_t block, std::uint64_t seed) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t base = i / static_cast<std::size_t>(block) * static_cast<std::size_t>(block);
    for (std::size_t j = 0; j < static_cast<std::size_t>(block); ++j) {
      const double sign = std::popcount((i - base) & j) % 2 ? -1.0 : 1.0;
      y[i] +=
          sign * static_cast<double>(rotation_sign(seed, static_cast<std::int64_t>(base + j))) * x[base + j];
    }
    y[i] /= std::sqrt(static_cast<double>(block));
  }
  return y;
}

TEST(Rotation, PadsOnlyWhereNoBlockOfSixteenDivides) {
  const std::int64_t expected[][3] = {
      {1, 1, 1},    {2, 2, 2},      {3, 4, 4},       {7, 8, 8},      {8, 8, 8},       {12, 16, 16},
      {16, 16, 16}, {20, 32, 32},   {32, 32, 32},    {40, 48, 16},   {49, 64, 64},    {80, 80, 16},
      {96, 96, 32}, {112, 112, 16}, {128, 128, 128}, {192, 192, 64}, {250, 256, 256}, {256, 256, 256}};
  for (const auto& [dim, padded, block] : expected) {
    EXPECT_EQ(rotated_dim(dim), padded) << dim;
    EXPECT_EQ(rotation_block(dim), block) << dim;
  }
}

TEST(Rotation, SignsAreSplitmix64) {
  // The published generator: state += golden ratio, then mix. Its first numbers from seed 1234567.
  const std::uint64_t numbers[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                   4593380528125082431u, 16408922859458223821u};
  for (std::int64_t c = 0; c < 5; ++c) {
    EXPECT_EQ(rotation_sign(1234567, c), numbers[c] >> 63 ? -1.0f : 1.0f) << c;
  }
  int negative = 0;
  for (std::int64_t c = 0; c < 10000; ++c) negative += rotation_sign(1, c) < 0;
  EXPECT_NEAR(negative, 5000, 200);  // four standard deviations
}

TEST(Rotation, IsTheSignedHadamardTransformAndItsInverse) {
  for (const std::int64_t dim : {1, 7, 16, 20, 49, 64, 80, 96, 128, 256}) {
    Input x = normal_input({1, 1, 1, dim}, 30);
    const auto padded = static_cast<std::size_t>(rotated_dim(dim));
    std::vector<float> row(x.values);
    row.resize(padded);
    const Rotation rotation(dim, 77);
    rotation.forward(row.data());
    std::vector<double> wide(x.values.begin(), x.values.end());
    wide.resize(padded);
    const std::vector<double> expected = rotated(wide, rotation_block(dim), 77);
    for (std::size_t c = 0; c < padded; ++c) EXPECT_NEAR(row[c], expected[c], 4e-6) << "dim " << dim;
    rotation.inverse(row.data());
    for (std::size_t c = 0; c < padded; ++c) {
      EXPECT_NEAR(row[c], c < x.values.size() ? x.values[c] : 0.0f, 4e-6) << "dim " << dim;
    }
  }
}

TEST(Rotation, TheInverseHasTheBitsOfTheTransformWithItsSignsTheOtherWayRound) {
  for (const std::int64_t dim : {1, 7, 16, 20, 49, 64, 80, 96, 128, 256}) {
    const auto padded = static_cast<std::size_t>(rotated_dim(dim));
    std::vector<float> row = normal_input({1, 1, 1, rotated_dim(dim)}, 31).values, want = row;
    const Rotation rotation(dim, 78);
    const auto sign = [](std::size_t c) { return rotation_sign(78, static_cast<std::int64_t>(c)); };
    for (std::size_t c = 0; c < padded; ++c) want[c] *= sign(c);
    rotation.forward(want.data());
    rotation.inverse(row.data());
    for (std::size_t c = 0; c < padded; ++c)
      ASSERT_EQ(row[c], want[c] * sign(c)) << "dim " << dim << ", channel " << c;
  }
}

TEST(Rotation, LeavesScoresAlone) {
  for (const std::int64_t dim : {7, 20, 64, 80, 96, 256}) {
    Input q = normal_input({1, 1, 6, dim}, 31), k = normal_input({1, 1, 6, dim}, 32);
    OperandRecipe recipe = recipe_of(DType::f32, Granularity::token);
    recipe.rotate = Rotate::on;
    recipe.rotation_seed = 5;
    Output rq(layout(q.view.shape, recipe, 0)), rk(layout(k.view.shape, recipe, 0));
    ASSERT_TRUE(quantize(q.view, q.dense(), recipe, rq.tensor, {}).ok());
    ASSERT_TRUE(quantize(k.view, k.dense(), recipe, rk.tensor, {}).ok());
    for (std::int64_t i = 0; i < 6; ++i)
      for (std::int64_t j = 0; j < 6; ++j) {
        double plain = 0, turned = 0;
        for (std::int64_t c = 0; c < dim; ++c)
          plain += static_cast<double>(q.at(0, 0, i, c)) * k.at(0, 0, j, c);
        for (std::int64_t c = 0; c < rotated_dim(dim); ++c) {
          turned += code_at(rq.tensor.codes, 0, 0, i, c) * code_at(rk.tensor.codes, 0, 0, j, c);
        }
        EXPECT_NEAR(turned, plain, 1e-5 * std::sqrt(static_cast<double>(dim))) << dim;
      }
  }
}

// The documented order, said as a recursion over levels instead of a binary counter.
std::vector<float> tree_sum(const std::vector<float>& x) {
  std::vector<float> level;
  for (std::size_t i = 0; i < x.size(); i += 128) {
    float s = x[i];
    for (std::size_t j = i + 1; j < std::min(i + 128, x.size()); ++j) s += x[j];
    level.push_back(s);
  }
  while (level.size() > 1) {
    std::vector<float> next;
    for (std::size_t i = 0; i < level.size(); i += 2) {
      next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
    }
    level = next;
  }
  return level;
}

TEST(Smooth, MeanIsTakenInTheDocumentedOrderBitForBit) {
  for (const std::int64_t tokens : {1, 2, 3, 127, 128, 129, 255, 256, 257, 640, 769, 900, 1921}) {
    Input x = normal_input({1, 1, tokens, 3}, 33);
    std::vector<float> mean(3);
    token_mean(x.view, {0, 0, 0, tokens}, mean.data());
    float factor = 1;
    while (static_cast<float>(tokens) * factor > 1) factor /= 2;
    for (std::int64_t c = 0; c < 3; ++c) {
      std::vector<float> column;
      double sum = 0;
      for (std::int64_t t = 0; t < tokens; ++t) {
        column.push_back(x.at(0, 0, t, c) * factor);
        sum += static_cast<double>(x.at(0, 0, t, c));
      }
      EXPECT_EQ(mean[static_cast<std::size_t>(c)],
                tree_sum(column)[0] / (static_cast<float>(tokens) * factor))
          << tokens;
      EXPECT_NEAR(mean[static_cast<std::size_t>(c)], sum / static_cast<double>(tokens), 1e-5) << tokens;
    }
  }
}

TEST(Smooth, MeanOfTheLargestValuesIsFiniteAndNanDoesNotSpread) {
  for (const std::int64_t tokens : {1, 2, 3, 100, 129, 1000}) {
    Input x({1, 1, tokens, 2}, std::vector<float>(static_cast<std::size_t>(tokens * 2), kMax));
    std::vector<float> mean(2);
    token_mean(x.view, {0, 0, 0, tokens}, mean.data());
    EXPECT_NEAR(mean[0] / kMax, 1.0f, 1e-4f) << tokens;
    EXPECT_LE(mean[0], kMax) << tokens;
    x.at(0, 0, tokens - 1, 1) = NAN;
    token_mean(x.view, {0, 0, 0, tokens}, mean.data());
    EXPECT_TRUE(std::isfinite(mean[1])) << tokens;
  }
}

TEST(Smooth, AnchorIsTheGivenOneOrTheFirstToken) {
  Input x = normal_input({2, 2, 30, 8}, 34);
  OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  recipe.smooth = Smooth::anchor;
  Output first(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, first.tensor, {}).ok());
  Input anchor = normal_input({1, 2, 1, 8}, 35);
  recipe.anchor = anchor.view;
  Output given(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, given.tensor, {}).ok());
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t c = 0; c < 8; ++c) {
        EXPECT_EQ(code_at(first.tensor.mean, b, h, 0, c), x.at(b, h, 0, c));
        EXPECT_EQ(code_at(given.tensor.mean, b, h, 0, c), anchor.at(0, h, 0, c));
        EXPECT_EQ(code_at(first.tensor.codes, b, h, 0, c), 0);
      }
}

TEST(Smooth, AnchoredPrefixDoesNotDependOnLaterTokens) {
  Input x = normal_input({1, 1, 40, 16}, 36);
  OperandRecipe recipe = recipe_of(DType::s8, Granularity::block);
  recipe.smooth = Smooth::anchor;
  recipe.rotate = Rotate::on;
  Output all(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, all.tensor, {}).ok());
  TensorView prefix = x.view;
  prefix.shape[2] = 32;  // two whole blocks
  Output part(layout(prefix.shape, recipe, 0));
  ASSERT_TRUE(quantize(prefix, {1, 32, nullptr}, recipe, part.tensor, {}).ok());
  for (std::int64_t t = 0; t < 32; ++t)
    for (std::int64_t c = 0; c < 16; ++c) {
      EXPECT_EQ(code_at(all.tensor.codes, 0, 0, t, c), code_at(part.tensor.codes, 0, 0, t, c));
    }
}

// Exponents of one head's channels.
std::vector<std::int32_t> exponents(Input& x) {
  ChannelNorms norms(x.view.shape[3], x.view.shape[2], thread_scratch());
  const float* row = x.values.data();
  for (std::int64_t t = 0; t < x.view.shape[2]; ++t) norms.measure(row + t * x.view.shape[3]);
  norms.begin_squares();
  for (std::int64_t t = 0; t < x.view.shape[2]; ++t) norms.square(row + t * x.view.shape[3]);
  std::vector<std::int32_t> e(static_cast<std::size_t>(x.view.shape[3]));
  norms.exponents(e.data());
  return e;
}

// The same in one pass; empty where that refuses.
std::vector<std::int32_t> exponents_at_once(const Input& x) {
  const std::int64_t tokens = x.view.shape[2], dim = x.view.shape[3];
  ChannelNorms norms(dim, tokens, thread_scratch());
  constexpr std::int64_t kTogether = 50;  // no divisor of a leaf of the sums
  for (std::int64_t t = 0; t < tokens; t += kTogether)
    norms.see(FloatRows{x.values.data() + t * dim, dim, std::min(kTogether, tokens - t), dim});
  std::vector<std::int32_t> e(static_cast<std::size_t>(dim));
  if (!norms.exponents_at_once(e.data())) e.clear();
  return e;
}

TEST(Equalise, OnePassGivesTheExponentsOfTwo) {
  const std::int64_t tokens = 300, dim = 65;
  for (const float size : {1.0f, 0x1p-20f, 0x1p-30f, 0x1p20f, 0x1p40f}) {
    Input x = normal_input({1, 1, tokens, dim}, 41, size);
    for (float& v : x.values) v = v == 0 ? size : v;
    // Channels of many sizes, and one whose largest element is the last float below a power of two.
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t c = 0; c < dim; ++c)
        x.at(0, 0, t, c) *= std::ldexp(1.0f, static_cast<int>(c % 9) - 4);
    for (std::int64_t t = 0; t < tokens; ++t) x.at(0, 0, t, 3) = std::nextafter(2 * size, 0.0f);
    const std::vector<std::int32_t> e = exponents_at_once(x);
    ASSERT_FALSE(e.empty()) << size;
    EXPECT_EQ(e, exponents(x)) << size;
  }
}

TEST(Equalise, OnePassRefusesWhatItsSquaresLose) {
  const float lost[] = {0.0f, 0x1p-63f * 0.99f, 0x1p-149f, 0x1p64f, kMax, NAN, -NAN, INFINITY, -INFINITY};
  for (const float value : lost) {
    Input x = normal_input({1, 1, 300, 16}, 42, 0.1f);
    for (float& v : x.values) v = v == 0 ? 1 : v;
    ASSERT_FALSE(exponents_at_once(x).empty());
    x.at(0, 0, 200, 7) = value;
    EXPECT_TRUE(exponents_at_once(x).empty()) << value;
  }
  // A square that is normal by itself and not where the channel's largest element is 2^30.
  Input x = normal_input({1, 1, 300, 16}, 43, 0.1f);
  for (float& v : x.values) v = v == 0 ? 1 : v;
  x.at(0, 0, 0, 7) = 0x1p-40f;
  EXPECT_FALSE(exponents_at_once(x).empty());
  x.at(0, 0, 299, 7) = 0x1p30f;
  EXPECT_TRUE(exponents_at_once(x).empty());
  EXPECT_TRUE(exponents_at_once(normal_input({1, 1, 0, 16}, 44)).empty());
}

// Orders of norms lie farther apart than 32 bits hold, whichever integer they come in.
TEST(Equalise, AChannelsExponentIsTheWholeOctavesBelowTheLargest) {
  constexpr std::int32_t kOctave = 1 << 23;
  const std::int32_t orders[] = {norm_order(0x1p-23f, 0x1p-149f),
                                 norm_order(std::nextafter(0x1p24f, 0.0f), kMax),
                                 -3 * kOctave,
                                 -3 * kOctave + 1,
                                 -1,
                                 0,
                                 1,
                                 kOctave - 1,
                                 kOctave,
                                 5 * kOctave + 77};
  for (const std::int32_t largest : orders)
    for (const std::int32_t order : orders) {
      if (order > largest) continue;
      const std::int64_t below = std::int64_t{largest} - order, octaves = -((below + kOctave - 1) / kOctave);
      const auto expected =
          static_cast<std::int32_t>(std::max<std::int64_t>(octaves, kSmallestChannelExponent));
      EXPECT_EQ(channel_exponent(order, largest, 1.0f), expected) << order << " " << largest;
      EXPECT_EQ(channel_exponent(std::int64_t{order}, std::int64_t{largest}, 1.0f), expected);
    }
  EXPECT_EQ(channel_exponent(0, 100 * kOctave, 0.0f), 0);
  EXPECT_EQ(channel_exponent(0, 100 * kOctave, 0x1p100f), -27) << "2^27 times the element would be Inf";
}

TEST(Equalise, BringsChannelNormsWithinAFactorOfTwo) {
  const std::int64_t tokens = 200, dim = 24;
  Input x = normal_input({1, 1, tokens, dim}, 37);
  Input size = normal_input({1, 1, 1, dim}, 38, 1.5f);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t c = 0; c < dim; ++c) x.at(0, 0, t, c) *= std::exp(size.at(0, 0, 0, c));
  for (std::int64_t t = 0; t < tokens; ++t) x.at(0, 0, t, 5) = 0;
  const std::vector<std::int32_t> e = exponents(x);
  EXPECT_EQ(e[5], 0);
  double least = INFINITY, most = 0;
  for (std::int64_t c = 0; c < dim; ++c) {
    if (c == 5) continue;
    double squares = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const double v = std::ldexp(x.at(0, 0, t, c), -e[static_cast<std::size_t>(c)]);
      squares += v * v;
    }
    least = std::min(least, std::sqrt(squares));
    most = std::max(most, std::sqrt(squares));
  }
  EXPECT_LT(most / least, 2 * (1 + 1e-6));
  EXPECT_GT(*std::min_element(e.begin(), e.end()), -20);
  EXPECT_EQ(*std::max_element(e.begin(), e.end()), 0);

  for (float& v : x.values) v *= 0x1p-30f;
  EXPECT_EQ(exponents(x), e) << "a power of two on all of V must not change the exponents";
}

TEST(Equalise, ExponentsStayInRangeAndElementsFinite) {
  Input x = normal_input({1, 1, 300, 6}, 39);
  for (std::int64_t t = 0; t < 300; ++t) {
    x.at(0, 0, t, 0) = t % 2 ? kMax : -kMax;
    x.at(0, 0, t, 1) = t == 200 ? kMax / 2 : 0;  // a small norm with one huge element
    x.at(0, 0, t, 2) = 0x1p-149f;
    x.at(0, 0, t, 3) = NAN;
    x.at(0, 0, t, 4) = t == 7 ? 0x1p-140f : 0.0f;
  }
  const std::vector<std::int32_t> e = exponents(x);
  EXPECT_EQ(e, (std::vector<std::int32_t>{0, -1, -64, 0, -64, -64}));
  // Channel 1 has a norm of 2^-5 of the largest, but one octave takes its element to the largest float.
  EXPECT_TRUE(std::isfinite(std::ldexp(kMax / 2, -e[1])));
}

TEST(Recipe, DequantisedErrorIsWithinHalfAStepOfEveryChannel) {
  // In the space of the codes each channel is off by at most half its step; rotation preserves the norm.
  const Smooth smooths[] = {Smooth::none, Smooth::mean, Smooth::anchor};
  for (const std::int64_t dim : {1, 7, 20, 49, 80, 96, 256}) {
    for (const Granularity granularity : kGranularities) {
      for (int options = 0; options < 12; ++options) {
        Input x = normal_input({1, 2, 40, dim}, 40);
        const std::int32_t edges[] = {0, 19, 40};
        const Sequences sequences = options % 2 ? Sequences{2, 40, edges} : x.dense();
        // A batch entry of one: dense with two heads, or two packed sequences.
        OperandRecipe recipe = recipe_of(DType::s8, granularity);
        recipe.smooth = smooths[options % 3];
        recipe.rotate = options & 4 ? Rotate::on : Rotate::off;
        recipe.equalise = options & 8 ? Equalise::on : Equalise::off;
        Output out(layout(x.view.shape, recipe, sequences.cu_seqlens ? 2 : 0));
        ASSERT_TRUE(quantize(x.view, sequences, recipe, out.tensor, {}).ok());
        ASSERT_TRUE(out.intact());
        Input back = normal_input(x.view.shape, 0);
        ASSERT_TRUE(dequantize(out.tensor, sequences, back.view, {}).ok());
        for (std::int64_t s = 0; s < sequences.count; ++s)
          for (std::int64_t h = 0; h < 2; ++h)
            for (std::int64_t t = 0; t < sequences.length(s); ++t) {
              double allowed = 0, error = 0, norm = 0;
              for (std::int64_t c = 0; c < out.tensor.codes.shape[3]; ++c) {
                const double e = recipe.equalise == Equalise::on ? code_at(out.tensor.channel_exponent, 0, h,
                                                                           sequences.cu_seqlens ? s : 0, c)
                                                                 : 0;
                const double half = 0.5 * scale_at(out.tensor, sequences, s, h, t, c) * std::exp2(e);
                allowed += half * half;
              }
              for (std::int64_t c = 0; c < dim; ++c) {
                const double v = x.at(0, h, sequences.begin(s) + t, c);
                const double d = back.at(0, h, sequences.begin(s) + t, c) - v;
                error += d * d;
                norm += v * v;
              }
              ASSERT_LE(std::sqrt(error), std::sqrt(allowed) * 1.0002 + 2e-6 * (std::sqrt(norm) + 1))
                  << "dim " << dim << ", per " << name(granularity) << ", options " << options
                  << ", sequence " << s << ", token " << t;
            }
      }
    }
  }
}

TEST(Recipe, RotationTamesAnOutlierAndEqualisationASmallChannel) {
  const auto rmse = [](Input& x, const OperandRecipe& recipe, std::int64_t channel) {
    Output out(layout(x.view.shape, recipe, 0));
    EXPECT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
    Input back = normal_input(x.view.shape, 0);
    EXPECT_TRUE(dequantize(out.tensor, x.dense(), back.view, {}).ok());
    double squares = 0;
    for (std::int64_t t = 0; t < x.view.shape[2]; ++t) {
      const double d = back.at(0, 0, t, channel) - x.at(0, 0, t, channel);
      squares += d * d;
    }
    return std::sqrt(squares);
  };
  Input x = normal_input({1, 1, 64, 128}, 41);
  for (std::int64_t t = 0; t < 64; ++t) {
    x.at(0, 0, t, 3) = 100;
    x.at(0, 0, t, 9) *= 0.01f;
  }
  OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  const double plain = rmse(x, recipe, 20), plain_small = rmse(x, recipe, 9);
  recipe.rotate = Rotate::on;
  EXPECT_LT(rmse(x, recipe, 20), plain / 5);
  recipe.rotate = Rotate::off;
  recipe.equalise = Equalise::on;
  EXPECT_LT(rmse(x, recipe, 9), plain_small / 20);
}

TEST(Recipe, CodesAndScalesAreTheSameBitsOnEveryCompilerAndBackend) {
  // All float steps have a fixed order, so one hash of all outputs stands for every build.
  std::vector<float> values(2 * 300 * 80);
  std::uint64_t state = 1;
  for (float& v : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-29f;
  }
  Input x({1, 2, 300, 80}, values);
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const DType format : kCodeFormats) {
    for (const Granularity granularity : kGranularities) {
      OperandRecipe recipe = recipe_of(format, granularity);
      recipe.smooth = Smooth::mean;
      recipe.rotate = Rotate::on;
      recipe.equalise = Equalise::on;
      recipe.head_floor_octaves = 8;
      Output out(layout(x.view.shape, recipe, 0));
      ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
      for (const auto& bytes : out.content()) {
        for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211u;
      }
    }
  }
  EXPECT_EQ(hash, 5703252850342466510u);
}

}  // namespace
}  // namespace octet::quant
