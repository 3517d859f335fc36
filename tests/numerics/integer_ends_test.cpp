// The ends of rows of `integer`, which work in words, against the formulas in wide numbers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "lanes/scalar.h"
#include "numerics/integer.h"

namespace octet {
namespace {

using S = IntegerScheme<ScalarLane>;
using U128 = __uint128_t;

/// x with `bits` bits, rounded to nearest, ties upwards; a carry is brought back.
integer::Scaled rounded(U128 x, std::int64_t exponent, int bits) {
  if (x == 0) return {};
  int length = 0;
  for (U128 rest = x; rest != 0; rest >>= 1) ++length;
  const int drop = length - bits;
  U128 mantissa = drop <= 0 ? x << -drop : (x + (U128{1} << (drop - 1))) >> drop;
  if (mantissa >> bits != 0) mantissa >>= 1, ++exponent;
  return {static_cast<std::int64_t>(mantissa), static_cast<std::int32_t>(exponent + drop)};
}

S::Out only(std::int64_t total) {
  S::Out out;
  out.bin[0] = total;
  return out;
}

/// Edges, and numbers of every length, one bit away from a tie or a carry.
std::int64_t some_total(std::mt19937_64& bits) {
  const int length = static_cast<int>(bits() % 63) + 1;
  const std::int64_t top = std::int64_t{1} << (length - 1), all = top | (top - 1);
  const int below = length > 31 ? length - 32 : 0;  // the bit that decides
  switch (bits() % 5) {
    case 0:
      return top;
    case 1:
      return all - static_cast<std::int64_t>(bits() % 3 % static_cast<std::uint64_t>(top));
    case 2:
      return all & ~((std::int64_t{1} << below) - 1) & ~((std::int64_t{1} << below) * (length > 31));
    case 3:
      return top | (std::int64_t{1} << below);
    default:
      return top | static_cast<std::int64_t>(bits() & static_cast<std::uint64_t>(top - 1));
  }
}

float some_scale(std::mt19937_64& bits) {
  constexpr float kEdges[] = {0.0f,           1.0f, 0x1p-149f, 0x1.8p-148f, 0x1p-126f, 0x1.fffffcp-127f,
                              0x1.fffffep127f};
  if (bits() % 4 == 0) return kEdges[bits() % 7];
  return std::ldexp(1 + static_cast<float>(bits() % 8388608) / 8388608, static_cast<int>(bits() % 250) - 125);
}

TEST(IntegerEnds, AnOutputIsItsSumTimesItsScaleRoundedTwiceTo31Bits) {
  std::mt19937_64 bits(21);
  const S scheme{};
  for (int trial = 0; trial < 1000000; ++trial) {
    const std::int64_t size = trial % 1000 == 0 ? 0 : some_total(bits), total = bits() % 2 ? size : -size;
    const float v = some_scale(bits);
    const int exponent = static_cast<int>(bits() % 60) - 30;
    const S::Wide got = scheme.finish(only(total), {}, {}, scheme.channel({v, exponent}));
    const integer::Scaled sum = rounded(static_cast<U128>(size), 0, 31), scale = integer::split(v);
    const integer::Scaled want = rounded(static_cast<U128>(sum.mantissa) * static_cast<U128>(scale.mantissa),
                                         std::int64_t{sum.exponent} + scale.exponent + exponent, 31);
    ASSERT_EQ(got.mantissa, want.mantissa) << total << " * " << v;
    if (want.mantissa != 0) {
      ASSERT_EQ(got.exponent, want.exponent) << total << " * " << v;
      ASSERT_EQ(got.sign, total < 0 ? -1 : 0) << total;
    }
  }
}

TEST(IntegerEnds, CodesAreRoundedOnceAndTheLargestLiesIn64To127) {
  std::mt19937_64 bits(22);
  const S scheme{};
  constexpr int kChannels = 8;
  for (int trial = 0; trial < 100000; ++trial) {
    S::State state;
    state.out_top = static_cast<int>(bits() % 9) - 4, state.sum_top = static_cast<int>(bits() % 9) - 4;
    state.sum.bin[0] = (some_total(bits) >> 1) | 1;
    S::Wide wide[kChannels], peak;
    for (S::Wide& w : wide) {
      const std::int64_t size = some_total(bits) >> (bits() % 32);
      w = scheme.finish(only(bits() % 2 ? size : -size), state, {}, scheme.channel({some_scale(bits), 0}));
    }
    peak = wide[0];
    for (const S::Wide& w : wide) peak = scheme.larger(peak, w);
    const S::Ending ending = scheme.ending(state, {}, peak);

    // The formulas of docs/numerics/integer.md: rho, and the shift of the row.
    const integer::Scaled sum = rounded(static_cast<U128>(state.sum.bin[0]), 0, 31);
    const U128 rho =
        (1157442765409226768 + static_cast<U128>(sum.mantissa) / 2) / static_cast<U128>(sum.mantissa);
    const S::Wide* largest = &wide[0];
    for (const S::Wide& w : wide) {
      const bool larger =
          w.exponent != largest->exponent ? w.exponent > largest->exponent : w.mantissa > largest->mantissa;
      if (w.mantissa != 0 && (larger || largest->mantissa == 0)) largest = &w;
    }
    if (largest->mantissa == 0) {
      ASSERT_EQ(scheme.output_scale(ending), 0);
      for (const S::Wide& w : wide) ASSERT_EQ(scheme.output_code(w, ending), 0);
      continue;
    }
    int most = 0;
    for (const S::Wide& w : wide) {
      const U128 product = static_cast<U128>(w.mantissa) * rho;
      const int drop = ending.shift + largest->exponent - w.exponent;
      const bool none = w.mantissa == 0 || drop > 100;
      const int code = none ? 0 : static_cast<int>((product + (U128{1} << (drop - 1))) >> drop);
      ASSERT_EQ(scheme.output_code(w, ending), w.sign ? -code : code) << "trial " << trial;
      most = code > most ? code : most;
    }
    ASSERT_GE(most, 64);
    ASSERT_LE(most, 127);
    ASSERT_EQ(ending.scale_exponent, largest->exponent - sum.exponent +
                                         integer::kBinOctaves * (state.out_top - state.sum_top) +
                                         ending.shift - 61);
    ASSERT_EQ(scheme.output_scale(ending), std::ldexp(1.0f, ending.scale_exponent));
  }
}

/// Ends a row of kChannels outputs both ways, and compares where floats decide; returns whether they do.
template <int kChannels>
bool floats_decide_rightly(const S::State& state, const S::Out (&out)[kChannels],
                           const ChannelScales<ScalarLane> (&scales)[kChannels]) {
  const S scheme{};
  S::Wide wide[kChannels], peak;
  float number[kChannels], largest = 0;
  bool known = true;
  for (int c = 0; c < kChannels; ++c) {
    wide[c] = scheme.finish(out[c], state, {}, scheme.channel(scales[c]));
    peak = c == 0 ? wide[0] : scheme.larger(peak, wide[c]);
    const float factor = scheme.rough_channel(scales[c]);
    known = known && factor == factor;
    number[c] = scheme.rough(out[c], state) * factor;
    largest = std::fmax(largest, std::fabs(number[c]));
  }
  const S::Rough rough = scheme.rough_ending(state, largest);
  if (!known || !rough.sure) return false;
  for (float x : number)
    if (!(std::fabs(x * rough.factor - std::nearbyint(x * rough.factor)) < S::kRoughSure)) return false;
  const S::Ending ending = scheme.ending(state, {}, peak);
  EXPECT_EQ(rough.scale, scheme.output_scale(ending));
  for (int c = 0; c < kChannels; ++c)
    EXPECT_EQ(static_cast<int>(std::nearbyint(number[c] * rough.factor)),
              scheme.output_code(wide[c], ending));
  return true;
}

/// The same with 31 bits of each output.
template <int kChannels>
bool words_decide_rightly(const S::State& state, const S::Out (&out)[kChannels],
                          const ChannelScales<ScalarLane> (&scales)[kChannels]) {
  using Quick = S::QuickEnds;
  const S scheme{};
  S::Wide wide[kChannels], peak;
  std::int64_t sum[kChannels];
  std::uint32_t sizes = 0, largest = 0;
  std::int32_t exponent = Quick::exponent(scheme.channel(scales[0]));
  // Of rows without a third bin a sum of two stands for the total as well.
  const bool in_window = state.out_unused > 0 && state.sum.bin[0] % 2 == 0;
  const integer::SumsOf sums_of = in_window ? integer::SumsOf::window : integer::SumsOf::total;
  for (int c = 0; c < kChannels; ++c) {
    wide[c] = scheme.finish(out[c], state, {}, scheme.channel(scales[c]));
    peak = c == 0 ? wide[0] : scheme.larger(peak, wide[c]);
    sum[c] = out[c].total(state.out_unused);
    if (in_window) {
      if (std::abs(out[c].bin[0]) >= std::int64_t{1} << (62 - integer::kBinOctaves - 1)) return false;
      sum[c] = (out[c].bin[0] << integer::kBinOctaves) + (state.out_unused == 1 ? out[c].bin[1] : 0);
    }
    sizes |= Quick::size(sum[c]);
    exponent = std::max(exponent, Quick::exponent(scheme.channel(scales[c])));
  }
  const std::uint32_t down = Quick::down(sizes);
  std::int32_t output[kChannels];
  for (int c = 0; c < kChannels; ++c) {
    output[c] = Quick::output(sum[c], down, Quick::factor(scheme.channel(scales[c]), exponent));
    largest = std::max(largest, static_cast<std::uint32_t>(std::abs(output[c])));
  }
  const Quick::Row row = scheme.quick_row(largest, state, down, exponent, sums_of);
  if (!row.sure) return false;
  for (std::int32_t x : output)
    if (Quick::code(x, row).above < 2 * row.margin) return false;
  const S::Ending ending = scheme.ending(state, {}, peak);
  EXPECT_EQ(S::output_scale(row.scale_exponent), scheme.output_scale(ending));
  EXPECT_EQ(row.scale_exponent, ending.scale_exponent);
  for (int c = 0; c < kChannels; ++c)
    EXPECT_EQ(Quick::code(output[c], row).code, scheme.output_code(wide[c], ending));
  return true;
}

TEST(IntegerEnds, WhereFloatsOrWordsDecideTheCodesAreTheExactOnes) {
  std::mt19937_64 bits(24);
  constexpr int kChannels = 8;
  int decided = 0, decided_in_words = 0;
  constexpr int kTrials = 200000;
  for (int trial = 0; trial < kTrials && !testing::Test::HasFailure(); ++trial) {
    S::State state;
    state.out_top = static_cast<int>(bits() % 9) - 4, state.sum_top = static_cast<int>(bits() % 9) - 4;
    state.out_unused = static_cast<int>(bits() % 3);
    state.sum.bin[0] = (some_total(bits) >> 1) | (bits() % 2) | 2;
    S::Out out[kChannels];
    ChannelScales<ScalarLane> scales[kChannels];
    const bool plain = bits() % 2 == 0;
    const int down = static_cast<int>(bits() % 32);
    for (int c = 0; c < kChannels; ++c) {
      for (std::int64_t& bin : out[c].bin)
        bin = static_cast<std::int64_t>(bits() % 2 ? some_total(bits) : -some_total(bits)) >> (2 + down);
      scales[c] = {plain ? 1.0f : some_scale(bits), static_cast<int>(bits() % 8)};
    }
    decided += floats_decide_rightly(state, out, scales);
    decided_in_words += words_decide_rightly(state, out, scales);
  }
  EXPECT_GT(decided, kTrials / 3) << "the way is not taken where it should be";
  EXPECT_GT(decided_in_words, kTrials / 3) << "the way is not taken where it should be";
}

// Outputs that are ties of their codes, or one unit of the sum away, and rows whose largest output is where
// the scale changes: what floats, or 31 bits, cannot tell apart has to be left to the exact way.
TEST(IntegerEnds, FloatsAndWordsLeaveTiesToTheExactWay) {
  std::mt19937_64 bits(25);
  int decided = 0, decided_in_words = 0;
  constexpr int kTrials = 200000;
  for (int trial = 0; trial < kTrials && !testing::Test::HasFailure(); ++trial) {
    S::State state;
    state.out_top = state.sum_top = 0;
    state.sum.bin[0] = std::int64_t{1} << (32 + bits() % 20);
    // Codes are in units of the largest's octave: one of 2^n, whose code is 64 whatever the sum is, or about
    // 127.5 / 64 of that, and a half of a unit beside it.
    const int n = static_cast<int>(34 + bits() % 20);
    const std::int64_t one = std::int64_t{1} << n, unit = one / 64,
                       off = static_cast<std::int64_t>(bits() % 5) - 2;
    const std::int64_t top = bits() % 2 ? one : (one / 64 * 255) / 2 + off * (bits() % 2 ? 1 : unit >> 16);
    S::Out out[2];
    out[0].bin[0] = top * 255 / 128;
    out[1].bin[0] = (static_cast<std::int64_t>(bits() % 60) * unit + unit / 2) * 255 / 128 + off;
    const ChannelScales<ScalarLane> scales[2] = {{1.0f, 0}, {1.0f, 0}};
    decided += floats_decide_rightly(state, out, scales);
    decided_in_words += words_decide_rightly(state, out, scales);
  }
  EXPECT_LT(decided, kTrials / 10) << "ties were thought decided";
  EXPECT_LT(decided_in_words, kTrials / 10) << "ties were thought decided";
}

// Rows as attention leaves them, by hand's breadth of every tie: outputs at all distances from one.
TEST(IntegerEnds, WordsDecideRightlyAtEveryDistanceFromATie) {
  std::mt19937_64 bits(26);
  int decided = 0;
  constexpr int kTrials = 300000, kChannels = 4;
  for (int trial = 0; trial < kTrials && !testing::Test::HasFailure(); ++trial) {
    S::State state;
    state.out_top = state.sum_top = 0;
    state.out_unused = 2;
    state.sum.bin[0] =
        static_cast<std::int64_t>((bits() | (std::uint64_t{1} << 40)) & ((std::uint64_t{1} << 41) - 1));
    S::Out out[kChannels];
    ChannelScales<ScalarLane> scales[kChannels];
    const long double unit = static_cast<long double>(state.sum.bin[0]) * 255 / 128 / 64;  // a code's
    for (int c = 0; c < kChannels; ++c) {
      scales[c] = {c == 0 ? 1.0f : 1 + static_cast<float>(bits() % 8388608) / 8388608,
                   -static_cast<int>(bits() % 3)};
      const long double scale = std::ldexp(static_cast<long double>(scales[c].v), scales[c].exponent);
      const long double code =
          c == 0 ? 64 + static_cast<long double>(bits() % 63) : static_cast<long double>(bits() % 63) + 0.5L;
      const long double off = std::ldexp(1.0L, -static_cast<int>(bits() % 36)) * (bits() % 2 ? 1 : -1);
      if (c == 0) scales[c].exponent = 0;
      out[c].bin[0] =
          static_cast<std::int64_t>(std::nearbyint((code + off * 0.4999L) * unit / (c == 0 ? 1.0L : scale)));
      if (bits() % 2) out[c].bin[0] = -out[c].bin[0];
    }
    decided += words_decide_rightly(state, out, scales);
  }
  EXPECT_GT(decided, kTrials / 20);
  EXPECT_LT(decided, kTrials / 2);
}

TEST(IntegerEnds, TheTotalRoundsTheLowerBinsAndKeepsItsSign) {
  std::mt19937_64 bits(23);
  for (int trial = 0; trial < 100000; ++trial) {
    S::Out out;
    for (std::int64_t& bin : out.bin) bin = static_cast<std::int64_t>(bits()) >> (2 + bits() % 62);
    const auto shifted = [](std::int64_t x, int n) {
      return static_cast<std::int64_t>(std::floor(std::ldexp(static_cast<long double>(x), -n) + 0.5L));
    };
    ASSERT_EQ(out.total(), out.bin[0] + shifted(out.bin[1], 16) + shifted(out.bin[2], 32));
  }
}

}  // namespace
}  // namespace octet
