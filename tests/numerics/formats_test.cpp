// Conversions of small formats against an oracle that knows only the list of representable values.
#include "numerics/formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace octet::formats_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// A format as the tests see it: its codes' layout, in plain numbers, and the four functions under test.
struct Format {
  std::string name;
  int exponent_bits, mantissa_bits;
  std::uint32_t first_special;  // the first non-negative code that is not finite
  std::uint32_t (*encode)(float);
  float (*decode)(std::uint32_t);
  float (*round)(float);
  bool overflows;  // finite values beyond the largest become Inf; else they saturate

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  /// The textbook formula in double: (-1)^s (1 + m/2^M) 2^(e - bias), with no hidden one where e = 0.
  double formula(std::uint32_t code) const {
    const std::uint32_t size = code & (sign() - 1), field = size >> mantissa_bits;
    const double fraction =
        std::ldexp(static_cast<double>(size & ((1u << mantissa_bits) - 1)), -mantissa_bits);
    const double value = field == 0 ? std::ldexp(fraction, 1 - bias())
                                    : std::ldexp(1.0 + fraction, static_cast<int>(field) - bias());
    return (code & sign()) ? -value : value;
  }
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"f16", 5, 10, 0x7c00, [](float x) -> std::uint32_t { return f16_from_f32(x); },
       [](std::uint32_t c) { return f32_from_f16(static_cast<std::uint16_t>(c)); },
       [](float x) { return round_to_f16(x); }, true},
      {"bf16", 8, 7, 0x7f80, [](float x) -> std::uint32_t { return bf16_from_f32(x); },
       [](std::uint32_t c) { return f32_from_bf16(static_cast<std::uint16_t>(c)); },
       [](float x) { return round_to_bf16(x); }, true},
      {"e4m3", 4, 3, 0x7f, [](float x) -> std::uint32_t { return e4m3_from_f32(x); },
       [](std::uint32_t c) { return f32_from_e4m3(static_cast<std::uint8_t>(c)); },
       [](float x) { return round_to_e4m3(x); }, false},
      {"e5m2", 5, 2, 0x7c, [](float x) -> std::uint32_t { return e5m2_from_f32(x); },
       [](std::uint32_t c) { return f32_from_e5m2(static_cast<std::uint8_t>(c)); },
       [](float x) { return round_to_e5m2(x); }, false},
  };
  return all;
}

/// The code that nearest-even rounding must give, by search over all representable magnitudes in double.
class Oracle {
 public:
  explicit Oracle(const Format& format) : format_(format) {
    for (std::uint32_t c = 0; c < format.first_special; ++c) values_.push_back(format.formula(c));
    // The value that the next code would have decides where rounding overflows.
    beyond_ = 2 * values_.back() - values_[values_.size() - 2];
  }

  std::uint32_t encode(float x) const {
    const std::uint32_t sign = std::signbit(x) ? format_.sign() : 0;
    const double a = std::fabs(static_cast<double>(x));
    const auto last = static_cast<std::uint32_t>(values_.size() - 1);
    if (a >= values_.back()) {
      const bool overflow =
          format_.overflows && a >= 0.5 * (values_.back() + beyond_);  // the tie goes to the even code
      return sign | (overflow ? format_.first_special : last);
    }
    const auto above =
        static_cast<std::uint32_t>(std::upper_bound(values_.begin(), values_.end(), a) - values_.begin());
    const std::uint32_t below = above - 1;
    const double down = a - values_[below], up = values_[above] - a;  // exact in double for all formats here
    if (down != up) return sign | (down < up ? below : above);
    return sign | ((below & 1u) == 0 ? below : above);
  }

  const std::vector<double>& values() const { return values_; }

 private:
  const Format& format_;
  std::vector<double> values_;
  double beyond_;
};

void expect_conversion(const Format& format, const Oracle& oracle, float x) {
  const std::uint32_t want = oracle.encode(x), got = format.encode(x);
  ASSERT_EQ(got, want) << format.name << " of " << std::hexfloat << x;
  const float value = format.decode(want), rounded = format.round(x);
  ASSERT_EQ(bits_of(rounded), bits_of(value))
      << format.name << " rounds " << std::hexfloat << x << " to " << rounded;
}

TEST(Formats, DecodeFollowsTheFormulaForEveryCode) {
  for (const Format& format : formats()) {
    for (std::uint32_t c = 0; c < 2 * format.sign(); ++c) {
      const std::uint32_t size = c & (format.sign() - 1);
      const float got = format.decode(c);
      ASSERT_EQ(std::signbit(got), (c & format.sign()) != 0) << format.name << " code " << c;
      if (size < format.first_special) {
        ASSERT_EQ(static_cast<double>(got), format.formula(c)) << format.name << " code " << c;
      } else if (format.name != "e4m3" && size == format.first_special) {
        ASSERT_TRUE(std::isinf(got)) << format.name << " code " << c;
      } else {
        ASSERT_TRUE(std::isnan(got)) << format.name << " code " << c;
      }
    }
  }
}

TEST(Formats, EveryCodeSurvivesARoundTrip) {
  for (const Format& format : formats()) {
    for (std::uint32_t c = 0; c < 2 * format.sign(); ++c) {
      const float value = format.decode(c);
      const std::uint32_t back = format.encode(value);
      if (std::isnan(value)) {  // the payload is not kept, the sign and being NaN are
        ASSERT_TRUE(std::isnan(format.decode(back))) << format.name << " code " << c;
        ASSERT_EQ(back & format.sign(), c & format.sign()) << format.name << " code " << c;
      } else {
        ASSERT_EQ(back, c) << format.name;
        ASSERT_EQ(bits_of(format.round(value)), bits_of(value)) << format.name << " code " << c;
      }
    }
  }
}

TEST(Formats, MidpointsGoToTheEvenCodeAndTheirNeighboursToTheNearer) {
  for (const Format& format : formats()) {
    const Oracle oracle(format);
    const auto& values = oracle.values();
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const auto middle =
          static_cast<float>(0.5 * (values[i] + values[i + 1]));  // exact: one more mantissa bit
      for (const float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInf)}) {
        expect_conversion(format, oracle, x);
        expect_conversion(format, oracle, -x);
      }
    }
  }
}

TEST(Formats, RandomFloatsAgreeWithTheSearchOracle) {
  for (const Format& format : formats()) {
    const Oracle oracle(format);
    std::mt19937 random(20240817);
    for (int i = 0; i < 400000; ++i) {
      const auto u = static_cast<std::uint32_t>(random());
      const float any = float_of(u);
      if (!std::isnan(any) && !std::isinf(any)) expect_conversion(format, oracle, any);
      // The same mantissa at an exponent inside the format's range, where the work is.
      const std::uint32_t exponent = (u >> 23) % 48 + 127 - 26;
      expect_conversion(format, oracle, float_of((u & 0x807fffffu) | (exponent << 23)));
    }
  }
}

TEST(Formats, OverflowSaturatesInEightBitsAndIsInfInSixteen) {
  const float huge = std::numeric_limits<float>::max();
  EXPECT_EQ(round_to_f16(65519.996f), 65504.0f);
  EXPECT_EQ(round_to_f16(65520.0f), kInf);
  EXPECT_EQ(round_to_bf16(huge), kInf);
  EXPECT_EQ(round_to_e4m3(huge), 448.0f);
  EXPECT_EQ(round_to_e4m3(kInf), 448.0f);
  EXPECT_EQ(round_to_e5m2(-huge), -57344.0f);
  EXPECT_EQ(round_to_e5m2(-kInf), -kInf);
  EXPECT_EQ(f16_from_f32(-kInf), 0xfc00);
  EXPECT_EQ(bf16_from_f32(kInf), 0x7f80);
  EXPECT_EQ(e4m3_from_f32(-kInf), 0xfe);
  EXPECT_EQ(e5m2_from_f32(kInf), 0x7c);
}

TEST(Formats, NanStaysNanWithItsSignWhateverThePayload) {
  for (const Format& format : formats()) {
    for (const std::uint32_t u :
         {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xffc00000u, 0xff800001u, 0xffffffffu}) {
      const float x = float_of(u);
      EXPECT_TRUE(std::isnan(format.round(x))) << format.name << " " << std::hex << u;
      EXPECT_TRUE(std::isnan(format.decode(format.encode(x)))) << format.name << " " << std::hex << u;
      EXPECT_EQ((format.encode(x) & format.sign()) != 0, (u >> 31) != 0)
          << format.name << " " << std::hex << u;
    }
  }
}

/// 4 mantissa bits each, so 8 in the product: f32 holds it, and a tensor core that accumulates in f32 starts
/// from it.
TEST(Formats, EveryProductOfTwoE4M3ValuesIsExactInF32) {
  const Format& e4m3 = formats()[2];
  for (std::uint32_t a = 0; a < 256; ++a) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      if ((a & 0x7f) == 0x7f || (b & 0x7f) == 0x7f) continue;
      const float product = e4m3.decode(a) * e4m3.decode(b);
      ASSERT_EQ(static_cast<double>(product), e4m3.formula(a) * e4m3.formula(b)) << a << " * " << b;
    }
  }
}

TEST(Formats, S4PairsKeepBothCodesLowNibbleFirst) {
  for (int low = -7; low <= 7; ++low) {
    for (int high = -7; high <= 7; ++high) {
      const std::uint8_t pair = s4_pack(static_cast<std::int8_t>(low), static_cast<std::int8_t>(high));
      ASSERT_EQ(s4_low(pair), low);
      ASSERT_EQ(s4_high(pair), high);
    }
  }
  EXPECT_EQ(s4_pack(1, -1), 0xf1);
}

}  // namespace
}  // namespace octet::formats_test
