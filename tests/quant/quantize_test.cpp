// Codes and scales of every granularity and format against a double-precision oracle that shares no code with
// the quantiser.
#include "quant/quantize.h"

#include <limits>
#include <map>
#include <tuple>

#include "numerics/formats.h"
#include "tests/quant/support.h"

namespace octet::quant {
namespace {

using namespace testing;

// Which elements share a scale, said independently: a key of (batch, head, group of tokens, channel).
std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t> group_key(Granularity g,
                                                                             std::int64_t block,
                                                                             std::int64_t s, std::int64_t h,
                                                                             std::int64_t t, std::int64_t c) {
  switch (g) {
    case Granularity::tensor:
      return {0, 0, 0, 0};
    case Granularity::head:
      return {s, h, 0, 0};
    case Granularity::block:
      return {s, h, t / block, 0};
    case Granularity::token:
      return {s, h, t, 0};
    case Granularity::channel:
      return {s, h, 0, c};
    default:
      return {s, h, t / block, c};
  }
}

// Largest distance between a scaled value and its code, in scales.
double allowed_error(DType format, double scaled) {
  const double a = std::fabs(scaled);
  if (format == DType::s8 || format == DType::s4) return 0.5 * (1 + 1e-4);
  // Half a step: 2^-4 (e4m3) or 2^-3 (e5m2) of the value, or of the subnormals' step.
  const double relative = format == DType::e4m3 ? 0x1p-4 : 0x1p-3;
  const double subnormal = format == DType::e4m3 ? 0x1p-10 : 0x1p-17;
  return std::max(a * relative, subnormal) * (1 + 1e-4);
}

void expect_matches_oracle(Input& x, const Sequences& sequences, const OperandRecipe& recipe) {
  const std::string what = name(recipe.format) + " per " + name(recipe.granularity) +
                           (sequences.cu_seqlens ? ", packed" : ", dense") + ", dim " +
                           std::to_string(x.view.shape[3]);
  Output out(layout(x.view.shape, recipe, sequences.cu_seqlens ? sequences.count : 0));
  const Status status = quantize(x.view, sequences, recipe, out.tensor, {});
  ASSERT_TRUE(status.ok()) << what << ": " << status.message();
  EXPECT_TRUE(out.intact()) << what << " wrote beyond its outputs";

  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, double> amax;
  const auto each = [&](auto&& body) {
    for (std::int64_t s = 0; s < sequences.count; ++s)
      for (std::int64_t h = 0; h < x.view.shape[1]; ++h)
        for (std::int64_t t = 0; t < sequences.length(s); ++t)
          for (std::int64_t c = 0; c < x.view.shape[3]; ++c) {
            body(s, h, t, c, static_cast<double>(x.at(sequences.batch(s), h, sequences.begin(s) + t, c)));
          }
  };
  each([&](auto s, auto h, auto t, auto c, double v) {
    double& a = amax[group_key(recipe.granularity, recipe.block, s, h, t, c)];
    a = std::max(a, std::fabs(v));
  });
  each([&](auto s, auto h, auto t, auto c, double v) {
    const double group_amax = amax[group_key(recipe.granularity, recipe.block, s, h, t, c)];
    const auto expected = static_cast<float>(group_amax / static_cast<double>(recipe.largest_code));
    const double scale = scale_at(out.tensor, sequences, s, h, t, c);
    const double code = code_at(out.tensor.codes, sequences.batch(s), h, sequences.begin(s) + t, c);
    ASSERT_EQ(scale, expected) << what << " scale at sequence " << s << ", head " << h << ", token " << t;
    ASSERT_LE(std::fabs(code), recipe.largest_code) << what;
    ASSERT_LE(std::fabs(code - v / scale), allowed_error(recipe.format, v / scale))
        << what << " sequence " << s << ", head " << h << ", token " << t << ", channel " << c << ": value "
        << v << ", code " << code << ", scale " << scale;
  });
}

TEST(Quantize, EveryFormatAndGranularityMatchesTheOracle) {
  for (const std::int64_t dim : {1, 7, 20, 64}) {
    Input dense = normal_input({2, 3, 37, dim}, 1);
    Input packed = normal_input({1, 2, 70, dim}, 2);
    const std::int32_t edges[] = {0, 17, 17, 49, 70};  // an empty sequence among them
    for (const DType format : kCodeFormats) {
      for (const Granularity granularity : kGranularities) {
        const OperandRecipe recipe = recipe_of(format, granularity);
        expect_matches_oracle(dense, dense.dense(), recipe);
        expect_matches_oracle(packed, {4, 70, edges}, recipe);
      }
    }
  }
}

TEST(Quantize, AllHeadDimsMatchTheOraclePerToken) {
  for (const std::int64_t dim : {1, 2, 3, 7, 15, 16, 17, 20, 31, 49, 80, 96, 127, 256}) {
    Input x = normal_input({1, 2, 5, dim}, 3);
    for (const DType format : kCodeFormats) {
      expect_matches_oracle(x, x.dense(), recipe_of(format, Granularity::token));
    }
  }
}

TEST(Quantize, PlainFormatsAreConvertedToTheNearestNumber) {
  Input x = normal_input({1, 2, 9, 33}, 4, 100.0f);
  for (const DType format : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const OperandRecipe recipe = recipe_of(format, Granularity::token);
    Output out(layout(x.view.shape, recipe, 0));
    ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
    EXPECT_TRUE(out.intact());
    EXPECT_EQ(out.tensor.scales.data, nullptr);
    const double half_step = format == DType::f16 ? 0x1p-11 : format == DType::bf16 ? 0x1p-8 : 0;
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t t = 0; t < 9; ++t)
        for (std::int64_t c = 0; c < 33; ++c) {
          const double v = x.at(0, h, t, c);
          EXPECT_LE(std::fabs(code_at(out.tensor.codes, 0, h, t, c) - v), half_step * std::fabs(v))
              << name(format) << " of " << v;
        }
  }
}

// Whether statistics read them as floats that were made once (300 tokens) or each time anew (2,100 of 64
// channels), and wherever their channels lie.
TEST(Quantize, SixteenBitInputsGiveTheCodesOfTheirValues) {
  OperandRecipe plain = recipe_of(DType::s8, Granularity::token), smoothed = plain, equalised = plain;
  smoothed.smooth = Smooth::mean, smoothed.rotate = Rotate::on, equalised.equalise = Equalise::on;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const auto& [tokens, dim] : {std::pair<std::int64_t, std::int64_t>{9, 33}, {300, 64}, {2100, 64}})
      for (const OperandRecipe& recipe : {plain, smoothed, equalised})
        for (const std::int64_t step : {1, 2}) {
          Input x = normal_input({1, 2, tokens, dim}, 5);
          std::vector<std::uint16_t> stored(x.values.size() * static_cast<std::size_t>(step), 0xffff);
          for (std::size_t i = 0; i < x.values.size(); ++i) {
            const float v = x.values[i];
            const std::uint16_t code = dtype == DType::f16 ? f16_from_f32(v) : bf16_from_f32(v);
            stored[i * static_cast<std::size_t>(step)] = code;
            x.values[i] = dtype == DType::f16 ? f32_from_f16(code) : f32_from_bf16(code);
          }
          TensorView half = x.view;
          half.data = stored.data();
          half.dtype = dtype;
          for (std::int64_t& stride : half.stride) stride *= step;
          Output a(layout(x.view.shape, recipe, 0)), b(layout(x.view.shape, recipe, 0));
          ASSERT_TRUE(quantize(x.view, x.dense(), recipe, a.tensor, {}).ok());
          ASSERT_TRUE(quantize(half, x.dense(), recipe, b.tensor, {}).ok());
          EXPECT_EQ(a.content(), b.content()) << name(dtype) << " " << tokens << " tokens, step " << step;
        }
}

TEST(Quantize, StridesAndBroadcastsDoNotChangeCodes) {
  const std::int64_t batch = 2, heads = 3, tokens = 10, dim = 24;
  Input x = normal_input({batch, heads, tokens, dim}, 6);
  const OperandRecipe recipe = recipe_of(DType::s8, Granularity::block);
  Output expected(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, expected.tensor, {}).ok());

  // token-major storage, then channels two apart in reverse order of the axes
  for (const std::array<std::int64_t, 4>& stride :
       {std::array<std::int64_t, 4>{tokens * heads * dim, dim, heads * dim, 1},
        std::array<std::int64_t, 4>{2, 2 * batch, 2 * batch * heads, 2 * batch * heads * tokens}}) {
    std::vector<float> storage(static_cast<std::size_t>(2 * batch * heads * tokens * dim), NAN);
    TensorView view = x.view;
    view.data = storage.data();
    view.stride = stride;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t c = 0; c < dim; ++c) {
            storage[static_cast<std::size_t>(b * stride[0] + h * stride[1] + t * stride[2] + c * stride[3])] =
                x.at(b, h, t, c);
          }
    Output out(layout(view.shape, recipe, 0));
    ASSERT_TRUE(quantize(view, x.dense(), recipe, out.tensor, {}).ok());
    EXPECT_EQ(out.content(), expected.content());
  }

  // one head shared by all
  TensorView shared = x.view;
  shared.stride[1] = 0;
  Output out(layout(shared.shape, recipe, 0));
  ASSERT_TRUE(quantize(shared, x.dense(), recipe, out.tensor, {}).ok());
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t c = 0; c < dim; ++c) {
        ASSERT_EQ(code_at(out.tensor.codes, 1, h, t, c), code_at(expected.tensor.codes, 1, 0, t, c));
      }
}

TEST(Quantize, CodesMayBeWrittenTokenMajorBeforeHeads) {
  Input x = normal_input({2, 3, 10, 24}, 7);
  const OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  Output expected(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, expected.tensor, {}).ok());
  QuantizedTensor bshd = layout(x.view.shape, recipe, 0);
  bshd.codes.stride = {10 * 3 * 24, 24, 3 * 24, 1};
  Output out(bshd);
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
  EXPECT_TRUE(out.intact());
  for (std::int64_t t = 0; t < 10; ++t)
    for (std::int64_t c = 0; c < 24; ++c) {
      EXPECT_EQ(code_at(out.tensor.codes, 1, 2, t, c), code_at(expected.tensor.codes, 1, 2, t, c));
    }
}

// Runs units backwards on the calling thread: another order than octet's own threads take.
void run_backwards(void*, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
  while (count > 0) body(context, --count);
}

TEST(Quantize, ResultsDoNotDependOnThreadsOrTheirOrder) {
  Input x = normal_input({2, 5, 300, 40}, 8);
  for (const Granularity granularity : kGranularities) {
    OperandRecipe recipe = recipe_of(DType::s8, granularity);
    recipe.smooth = Smooth::mean;
    recipe.rotate = Rotate::on;
    recipe.equalise = Equalise::on;
    Output a(layout(x.view.shape, recipe, 0)), b(layout(x.view.shape, recipe, 0));
    ASSERT_TRUE(quantize(x.view, x.dense(), recipe, a.tensor, {}).ok());
    ASSERT_TRUE(quantize(x.view, x.dense(), recipe, b.tensor, {run_backwards, nullptr}).ok());
    EXPECT_EQ(a.content(), b.content()) << name(granularity);
  }
}

TEST(Quantize, PackedSequencesEqualTheSameSequencesAlone) {
  const std::int64_t heads = 2, dim = 20;
  Input packed = normal_input({1, heads, 200, dim}, 9);
  const std::int32_t edges[] = {0, 33, 163, 200};
  for (const Granularity granularity : kGranularities) {
    if (granularity == Granularity::tensor) continue;  // shared by all sequences: that is its meaning
    OperandRecipe recipe = recipe_of(DType::s8, granularity);
    recipe.smooth = Smooth::mean;
    recipe.rotate = Rotate::on;
    recipe.equalise = Equalise::on;
    const Sequences sequences{3, 200, edges};
    Output all(layout(packed.view.shape, recipe, 3));
    ASSERT_TRUE(quantize(packed.view, sequences, recipe, all.tensor, {}).ok());
    for (std::int64_t s = 0; s < 3; ++s) {
      TensorView alone = packed.view;
      alone.shape[2] = sequences.length(s);
      alone.data = packed.values.data() + sequences.begin(s) * alone.stride[2];
      const Sequences one{1, alone.shape[2], nullptr};
      Output out(layout(alone.shape, recipe, 0));
      ASSERT_TRUE(quantize(alone, one, recipe, out.tensor, {}).ok());
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t t = 0; t < alone.shape[2]; ++t)
          for (std::int64_t c = 0; c < out.tensor.codes.shape[3]; ++c) {
            ASSERT_EQ(code_at(all.tensor.codes, 0, h, sequences.begin(s) + t, c),
                      code_at(out.tensor.codes, 0, h, t, c));
            ASSERT_EQ(scale_at(all.tensor, sequences, s, h, t, c), scale_at(out.tensor, one, 0, h, t, c));
          }
    }
  }
}

TEST(Quantize, SharedAmaxGivesOneScaleToTheQattnRule) {
  Input x = normal_input({1, 2, 8, 16}, 10);
  OperandRecipe recipe = recipe_of(DType::s8, Granularity::tensor);
  recipe.largest_code = 127.5f;
  recipe.shared_amax = 2.0f;
  Output out(layout(x.view.shape, recipe, 0));
  ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
  EXPECT_EQ(scale_at(out.tensor, x.dense(), 0, 1, 7, 3), 2.0f / 127.5f);
  for (std::int64_t t = 0; t < 8; ++t)
    for (std::int64_t c = 0; c < 16; ++c) {
      const double expected = std::clamp(x.at(0, 1, t, c) * 63.75, -127.0, 127.0);
      EXPECT_NEAR(code_at(out.tensor.codes, 0, 1, t, c), expected, 0.5001);
    }
}

TEST(Quantize, AnEmptyTensorIsFine) {
  Input x = normal_input({2, 2, 0, 16}, 11);
  const OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  Output out(layout(x.view.shape, recipe, 0));
  EXPECT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
}

TEST(Quantize, LayoutStatesShapesAndSharedStrides) {
  OperandRecipe recipe = recipe_of(DType::s4, Granularity::token);
  QuantizedTensor t = layout({2, 3, 50, 7}, recipe, 0);
  EXPECT_EQ(t.codes.stride, (std::array<std::int64_t, 4>{3 * 50 * 8, 50 * 8, 8, 1}));
  EXPECT_EQ(t.scales.shape, (std::array<std::int64_t, 4>{2, 3, 50, 1}));
  recipe.granularity = Granularity::tensor;
  EXPECT_EQ(layout({2, 3, 50, 7}, recipe, 0).scales.stride, (std::array<std::int64_t, 4>{}));
  recipe.granularity = Granularity::head;
  EXPECT_EQ(layout({1, 3, 50, 7}, recipe, 4).scales.shape, (std::array<std::int64_t, 4>{1, 3, 4, 1}));
  recipe.granularity = Granularity::block_channel;
  recipe.rotate = Rotate::on;
  t = layout({2, 3, 50, 7}, recipe, 0);
  EXPECT_EQ(t.codes.shape[3], 8);
  EXPECT_EQ(t.scales.shape, (std::array<std::int64_t, 4>{2, 3, 4, 8}));
}

TEST(Quantize, BadArgumentsAreNamed) {
  Input x = normal_input({1, 1, 4, 16}, 12);
  const auto message = [&](OperandRecipe recipe, TensorView view, Sequences sequences) {
    Output out(layout(x.view.shape, recipe, 0));
    const Status status = quantize(view, sequences, recipe, out.tensor, {});
    EXPECT_EQ(status.code(), Code::invalid_argument);
    return status.message();
  };
  const OperandRecipe good = recipe_of(DType::s8, Granularity::token);
  OperandRecipe bad = good;
  bad.largest_code = 0;
  EXPECT_NE(message(bad, x.view, x.dense()).find("largest_code"), std::string::npos);
  bad = good;
  bad.shared_amax = INFINITY;
  EXPECT_NE(message(bad, x.view, x.dense()).find("shared_amax"), std::string::npos);
  bad = good;
  bad.granularity = Granularity::block;
  bad.block = 16;
  bad.block_floor_octaves = 200;
  EXPECT_NE(message(bad, x.view, x.dense()).find("octaves"), std::string::npos);
  TensorView wrong = x.view;
  wrong.dtype = DType::s32;
  EXPECT_NE(message(good, wrong, x.dense()).find("dtype is s32"), std::string::npos);
  bad = good;
  bad.format = DType::boolean;
  EXPECT_NE(message(bad, x.view, x.dense()).find("format is boolean"), std::string::npos);
  EXPECT_NE(message(good, x.view, {1, 5, nullptr}).find("sequences"), std::string::npos);
  wrong = x.view;
  wrong.shape[3] = 15;
  EXPECT_NE(message(good, wrong, x.dense()).find("shape"), std::string::npos);
}

// Rows are written and read as wholes: a step between their elements would reach past the tensor's memory.
TEST(Quantize, RowsWithGapsAreRefusedInBothDirections) {
  Input x = normal_input({1, 1, 4, 16}, 13);
  OperandRecipe recipe = recipe_of(DType::s8, Granularity::token);
  recipe.smooth = Smooth::mean;
  recipe.equalise = Equalise::on;
  for (TensorView QuantizedTensor::*part :
       {&QuantizedTensor::codes, &QuantizedTensor::channel_exponent, &QuantizedTensor::mean}) {
    for (const std::int64_t step : {0, 2, -1}) {
      Output out(layout(x.view.shape, recipe, 0)), plain(layout(x.view.shape, recipe_of(DType::f32, {}), 0));
      ASSERT_TRUE(quantize(x.view, x.dense(), recipe, out.tensor, {}).ok());
      (out.tensor.*part).stride[3] = step;
      for (const Status& status : {quantize(x.view, x.dense(), recipe, out.tensor, {}),
                                   dequantize(out.tensor, x.dense(), plain.tensor.codes, {})}) {
        EXPECT_EQ(status.code(), Code::invalid_argument);
        EXPECT_NE(status.message().find("dim stride"), std::string::npos) << status.message();
      }
    }
  }
}

}  // namespace
}  // namespace octet::quant
