// The row kernels of every instruction set that this processor has against those of the baseline, bit for
// bit, and the baseline against a loop of plain numbers. The rest of this folder's tests run on the fastest
// set.
#include "quant/row_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/bits.h"
#include "base/isa.h"
#include "numerics/formats.h"
#include "quant/rotate.h"
#include "quant/scales.h"
#include "tests/quant/support.h"

namespace octet::quant::testing {
namespace {

constexpr std::int64_t kRows = 19;  // more than are rotated at a time
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
  return x;
}

constexpr float kLargestF16 = 65504;  // finite in every type

/// What the kernels of one set make of the same rows.
struct Results {
  std::vector<std::vector<std::uint32_t>> words;

  template <class T>
  void add(const std::vector<T>& x) {
    std::vector<std::uint32_t>& w = words.emplace_back();
    for (const T v : x) {
      if constexpr (std::is_same_v<T, float>)
        w.push_back(std::isnan(v) ? kF32QuietNan : std::bit_cast<std::uint32_t>(v));
      else
        w.push_back(static_cast<std::uint32_t>(v));
    }
  }
};

/// Numbers in one of the types that rows are read in.
class Stored {
 public:
  Stored(std::vector<float> x, DType dtype) : dtype_(dtype), floats_(std::move(x)) {
    for (const float v : floats_) halves_.push_back(dtype == DType::f16 ? f16_from_f32(v) : bf16_from_f32(v));
  }
  Rows rows(std::int64_t count) const {
    const void* data = halves_.data();
    if (dtype_ == DType::f32) data = floats_.data();
    const std::int64_t channels = static_cast<std::int64_t>(floats_.size()) / count;
    return {data, dtype_, channels, count, channels};
  }

 private:
  DType dtype_;
  std::vector<float> floats_;
  std::vector<std::uint16_t> halves_;
};

Results run(const RowKernels& kernels, DType dtype, std::int64_t channels, bool with_nan) {
  std::vector<float> x = numbers(kRows * channels, 7);
  for (float& v : x) v = std::clamp(v, -kLargestF16, kLargestF16);
  if (with_nan) x[static_cast<std::size_t>(channels)] = kNan, x.back() = -INFINITY;
  const Stored stored(x, dtype);
  const Rows rows = stored.rows(kRows);
  const std::vector<float> shift = numbers(channels, 8), factor = numbers(channels, 9);
  const Rotation rotation(channels, 10);
  const std::int64_t wide = rotated_dim(channels);

  Results results;
  std::vector<std::uint32_t> largest(kRows);
  const auto read = [&](const RowSteps& steps, std::int64_t out_channels) {
    std::vector<float> out(static_cast<std::size_t>(kRows * out_channels));
    const std::uint32_t all =
        kernels.read(rows, steps, {out.data(), out_channels, out_channels}, largest.data());
    results.add(out);
    const std::uint32_t most = *std::max_element(largest.begin(), largest.end());
    EXPECT_EQ(all, most);
    EXPECT_EQ(kernels.read(rows, steps, {out.data(), out_channels, out_channels}, nullptr), most);
    EXPECT_GE(most, with_nan ? kF32Inf : 0u);
    if (!with_nan) results.add(largest);
  };
  std::vector<float> as_floats(static_cast<std::size_t>(kRows * channels));
  kernels.floats(rows, {as_floats.data(), channels, channels});
  results.add(as_floats);
  read({}, channels);
  read({shift.data(), nullptr, 0}, channels);
  read({nullptr, factor.data(), 0}, channels);
  read({shift.data(), factor.data(), 0}, channels);
  read({nullptr, rotation.factors(), rotation.block()}, wide);
  read({shift.data(), rotation.factors(), rotation.block()}, wide);

  const FloatRows floats{as_floats.data(), channels, kRows, channels};
  for (const float* factors : {static_cast<const float*>(nullptr), factor.data()}) {
    const std::uint32_t all = kernels.row_largest(floats, factors, largest.data());
    EXPECT_EQ(all, *std::max_element(largest.begin(), largest.end()));
    EXPECT_EQ(kernels.row_largest(floats, factors, nullptr), all);
    EXPECT_EQ(all >= kF32Inf, with_nan);
    if (with_nan) continue;
    results.add(largest);
    std::vector<std::uint32_t> of_stored(largest.size());
    EXPECT_EQ(kernels.row_largest(rows, factors, of_stored.data()), all);
    EXPECT_EQ(of_stored, largest) << "as they are stored";
  }
  std::vector<std::uint32_t> peaks(static_cast<std::size_t>(channels));
  EXPECT_EQ(kernels.channel_largest(floats, peaks.data()) >= kF32Inf, with_nan);
  results.add(peaks);
  std::vector<float> sum(static_cast<std::size_t>(channels), -0.0f), squares = sum;
  kernels.add(rows, 0.125f, sum.data());
  kernels.add_squares(floats, factor.data(), squares.data());
  results.add(sum);
  results.add(squares);
  const std::vector<float> ones(static_cast<std::size_t>(channels), 1.0f);
  std::vector<float> plain(sum.size(), -0.0f), want(sum.size(), -0.0f);
  std::vector<std::int32_t> least(sum.size(), static_cast<std::int32_t>(kF32Inf)), most(sum.size());
  kernels.add_plain_squares(rows, plain.data(), least.data(), most.data());
  results.add(plain);
  results.add(least);
  results.add(most);
  kernels.add_squares(floats, ones.data(), want.data());
  for (std::size_t c = 0; !with_nan && c < plain.size(); ++c) {
    EXPECT_EQ(plain[c], want[c]);
    float low = INFINITY, high = 0;
    for (std::size_t i = c; i < as_floats.size(); i += plain.size()) {
      const float square = as_floats[i] * as_floats[i];
      low = std::min(low, square), high = std::max(high, square);
    }
    EXPECT_EQ(least[c], std::bit_cast<std::int32_t>(low));
    EXPECT_EQ(most[c], std::bit_cast<std::int32_t>(high));
  }

  std::vector<float> of_powers(plain.size());
  std::vector<std::int32_t> exponent(plain.size());
  const bool fits =
      kernels.scale_squares(plain.data(), least.data(), most.data(), of_powers.data(), channels);
  EXPECT_TRUE(fits == !with_nan || (dtype == DType::f16 && !fits));  // whose smallest numbers are 0
  if (fits) kernels.exponents(plain.data(), of_powers.data(), channels, exponent.data());
  results.add(plain);
  results.add(of_powers);
  results.add(exponent);
  kernels.means(sum.data(), 0.625f, channels);
  results.add(sum);

  if (with_nan) return results;
  std::vector<float> amax = numbers(channels, 11), scale(amax.size()), rscale(amax.size());
  for (float& a : amax) a = std::fabs(a);
  amax[0] = 0;
  for (const float floor : {0.0f, 0.01f}) {
    const auto expect_scales = [&](ScaleRule rule, float largest_code) {
      results.add(scale);
      results.add(rscale);
      for (std::size_t i = 0; i < amax.size(); ++i) {
        const Scale expected = group_scale(amax[i], floor, rule, largest_code);
        EXPECT_EQ(scale[i], expected.scale);
        EXPECT_EQ(rscale[i], expected.rscale);
      }
    };
    kernels.nearest_scales(amax.data(), channels, floor, 127, scale.data(), rscale.data());
    expect_scales(ScaleRule::nearest, 127);
    for (const float largest_code : {127.0f, 7.0f, 127.5f, 448.0f, 64.0f}) {
      EXPECT_TRUE(
          kernels.sixteenth_scales(amax.data(), channels, floor, largest_code, scale.data(), rscale.data()));
      expect_scales(ScaleRule::sixteenths, largest_code);
    }
  }
  std::vector<std::int8_t> codes(static_cast<std::size_t>(kRows * channels));
  std::vector<float> row_rscale(kRows);
  for (const float* factors : {static_cast<const float*>(nullptr), factor.data()}) {
    kernels.row_largest(floats, factors, largest.data());
    for (std::size_t r = 0; r < row_rscale.size(); ++r)
      row_rscale[r] = group_scale(std::bit_cast<float>(largest[r]), 0, ScaleRule::nearest, 127).rscale;
    kernels.codes(floats, factors, row_rscale.data(), codes.data(), channels);
    results.add(codes);
    std::vector<std::int8_t> of_stored(codes.size());
    kernels.codes(rows, factors, row_rscale.data(), of_stored.data(), channels);
    EXPECT_EQ(of_stored, codes) << "as they are stored";
  }
  kernels.codes_by_channel(floats, factor.data(), codes.data(), channels);
  results.add(codes);
  return results;
}

void expect_baseline(const RowKernels& kernels) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::int64_t channels : {1, 2, 3, 7, 8, 16, 20, 31, 32, 33, 48, 64, 80, 100, 128, 160, 256})
      for (const bool with_nan : {false, true}) {
        const Results want = run(baseline_row_kernels(), dtype, channels, with_nan);
        const Results got = run(kernels, dtype, channels, with_nan);
        EXPECT_EQ(got.words, want.words) << channels << " channels, dtype " << static_cast<int>(dtype);
      }
}

/// Codes that are packed at once are those of codes(), each at its place.
void expect_packed(const RowKernels& kernels, DType dtype) {
  const std::int64_t tokens = kernels.packed.tokens, count = 2 * tokens;
  for (const std::int64_t channels : {16, 32, 48, 64, 80, 128, 256})
    for (const bool multiplies : {false, true}) {
      SCOPED_TRACE(std::to_string(channels) + " channels");
      std::vector<float> x = numbers(count * channels, 14);
      for (float& v : x) v = std::clamp(v, -kLargestF16, kLargestF16);
      const std::vector<float> factors = numbers(channels, 15);
      const float* factor = multiplies ? factors.data() : nullptr;
      const Stored stored(x, dtype);
      const Rows rows = stored.rows(count);
      std::vector<std::uint32_t> largest(static_cast<std::size_t>(count));
      std::vector<float> rscale(largest.size());
      kernels.row_largest(rows, factor, largest.data());
      for (std::size_t r = 0; r < rscale.size(); ++r)
        rscale[r] = group_scale(std::bit_cast<float>(largest[r]), 0, ScaleRule::nearest, 127).rscale;
      std::vector<std::int8_t> codes(x.size()), columns(x.size()), flipped(x.size()), quads(x.size());
      kernels.codes(rows, factor, rscale.data(), codes.data(), channels);
      const auto bytes = [](std::vector<std::int8_t>& v) { return reinterpret_cast<std::byte*>(v.data()); };
      kernels.packed.columns(rows, factor, rscale.data(), 0, bytes(columns));
      kernels.packed.columns(rows, factor, rscale.data(), 0x80808080, bytes(flipped));
      kernels.packed.quads(rows, factor, rscale.data(), bytes(quads));
      for (std::int64_t t = 0; t < count; ++t)
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
          const std::int64_t column =
              ((t / tokens * (channels / 4) + c / 4) * tokens + t % tokens) * 4 + c % 4;
          const std::int64_t quad = (t / 4 * channels + c) * 4 + t % 4;
          const std::int8_t code = codes[at(t * channels + c)];
          ASSERT_EQ(columns[at(column)], code) << "token " << t << ", channel " << c;
          ASSERT_EQ(flipped[at(column)], static_cast<std::int8_t>(code ^ -128));
          ASSERT_EQ(quads[at(quad)], code) << "token " << t << ", channel " << c;
        }
    }
}

TEST(RowKernels, PackedCodesAreThoseOfRows) {
  EXPECT_EQ(baseline_row_kernels().packed.tokens, 0);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (refusal(Isa::avx2).empty()) expect_packed(avx2_row_kernels(), dtype);
    if (refusal(Isa::avx512_vnni).empty()) expect_packed(avx512_row_kernels(), dtype);
  }
}

TEST(RowKernels, Avx2GivesTheBitsOfTheBaseline) {
  if (!refusal(Isa::avx2).empty()) GTEST_SKIP() << refusal(Isa::avx2);
  expect_baseline(avx2_row_kernels());
}

TEST(RowKernels, Avx512GivesTheBitsOfTheBaseline) {
  if (!refusal(Isa::avx512_vnni).empty()) GTEST_SKIP() << refusal(Isa::avx512_vnni);
  expect_baseline(avx512_row_kernels());
}

TEST(RowKernels, SixteenthScalesAreThoseOfPlainNumbers) {
  // Around every g, at the ends of the range, and what the lanes leave to plain numbers.
  std::vector<float> amax{0, 0x1p-100f, std::numeric_limits<float>::max()};
  for (int g = 16; g <= 32; ++g)
    for (const float octave : {1.0f, 0x1p-90f, 0x1p90f}) {
      const float at = octave * 127 * 16 / static_cast<float>(g);
      amax.insert(amax.end(), {std::nextafter(at, 0.0f), at, std::nextafter(at, INFINITY)});
    }
  const auto count = static_cast<std::int64_t>(amax.size());
  std::vector<float> scale(amax.size()), rscale(amax.size());
  const RowKernels& kernels = row_kernels();
  for (const float floor : {0.0f, 3.0f}) {
    ASSERT_TRUE(kernels.sixteenth_scales(amax.data(), count, floor, 127, scale.data(), rscale.data()));
    for (std::size_t i = 0; i < amax.size(); ++i) {
      const Scale expected = group_scale(amax[i], floor, ScaleRule::sixteenths, 127);
      EXPECT_EQ(scale[i], expected.scale) << amax[i];
      EXPECT_EQ(rscale[i], expected.rscale) << amax[i];
    }
  }
  amax.back() = 0x1p-101f;
  EXPECT_FALSE(kernels.sixteenth_scales(amax.data(), count, 0, 127, scale.data(), rscale.data()));
  EXPECT_FALSE(kernels.sixteenth_scales(amax.data(), count, 0, 1, scale.data(), rscale.data()));
}

TEST(RowKernels, BaselineRotatesAndEncodesAsPlainLoopsDo) {
  for (const std::int64_t channels : {4, 8, 16, 48, 64, 128}) {
    const std::vector<float> x = numbers(channels, 12);
    const Rotation rotation(channels, 13);
    std::vector<float> want = x, got(x.size());
    rotation.forward(want.data());
    std::uint32_t largest = 0;
    baseline_row_kernels().read({x.data(), DType::f32, channels, 1, channels},
                                {nullptr, rotation.factors(), rotation.block()},
                                {got.data(), channels, channels}, &largest);
    EXPECT_EQ(got, want) << channels;
    float peak = 0;
    for (const float v : want) peak = std::max(peak, std::fabs(v));
    EXPECT_EQ(std::bit_cast<float>(largest), peak) << channels;

    std::vector<std::int8_t> codes(x.size());
    const float rscale =
        group_scale(std::fabs(*std::max_element(
                        x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); })),
                    0, ScaleRule::nearest, 127)
            .rscale;
    baseline_row_kernels().codes(FloatRows{x.data(), channels, 1, channels}, nullptr, &rscale, codes.data(),
                                 channels);
    for (std::size_t c = 0; c < x.size(); ++c)
      EXPECT_EQ(codes[c], std::nearbyint(std::fmin(std::fmax(x[c] * rscale, -127.0f), 127.0f)));
  }
}

}  // namespace
}  // namespace octet::quant::testing
