// Rows of one or two key blocks without bins, against the bins; and the codes that 31 bits of their sums
// decide.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "lanes/scalar.h"
#include "numerics/integer.h"

namespace octet {
namespace {

using S = IntegerScheme<ScalarLane>;

/// A key block of a row: where its largest score lies, V's exponent, the sum of masses, and sums of channels.
template <int kChannels>
struct BlockOfRow {
  std::int64_t largest = 0;
  std::int32_t v_exponent = 0;
  std::int64_t mass = 0;
  std::int32_t sum[kChannels] = {};
};

template <int kChannels>
BlockOfRow<kChannels> some_block(std::mt19937_64& bits, std::int64_t near) {
  BlockOfRow<kChannels> b;
  const int octaves = static_cast<int>(bits() % 3 == 0 ? bits() % 70 : bits() % 6);
  b.largest = near + (static_cast<std::int64_t>(bits() % 2047) - 1023) * (octaves + 1);
  b.v_exponent = static_cast<std::int32_t>(bits() % 4 == 0 ? bits() % 60 : bits() % 3) - 10;
  b.mass = static_cast<std::int64_t>(32767 * 16 + (bits() >> (29 + bits() % 30)));
  const int down = static_cast<int>(bits() % 12);
  constexpr std::int32_t kMost = 255 * 127 * 128;
  for (std::int32_t& x : b.sum) x = (static_cast<std::int32_t>(bits() % (2 * kMost + 1)) - kMost) >> down;
  return b;
}

/// Ends a row of kTerms blocks by bins and by terms; returns whether 31 bits decided its codes.
template <int kTerms, int kChannels>
bool terms_are_bins(const BlockOfRow<kChannels> (&blocks)[kTerms],
                    const ChannelScales<ScalarLane> (&scales)[kChannels]) {
  const S scheme{};
  S::State state;
  S::Out out[kChannels];
  S::Term terms[kTerms];
  std::int32_t sums[kChannels][kTerms];
  for (int t = 0; t < kTerms; ++t) {
    const BlockOfRow<kChannels>& b = blocks[t];
    S::View view{};
    view.position = b.largest, view.v_exponent = b.v_exponent;
    const S::Step step = scheme.step(state, 0, view);
    const S::Lone lone = scheme.lone(b.largest, b.v_exponent);
    EXPECT_EQ(lone.above, step.origin);
    terms[t] = lone.term;
    terms[t].mass = S::mass_of(b.mass, lone.term);
    for (int c = 0; c < kChannels; ++c) {
      scheme.fold(out[c], b.sum[c], step, {});
      sums[c][t] = b.sum[c];
    }
    state = scheme.absorb(state, step, b.mass);
  }
  const S::State joined_state = S::state_of(terms);
  EXPECT_EQ(joined_state.sum.total(), state.sum.total());
  EXPECT_EQ(joined_state.sum_top, state.sum_top);
  EXPECT_EQ(joined_state.out_top, state.out_top);

  using Channels = S::QuickEnds;
  using Quick = S::TermEnds<kTerms>;
  S::Wide peak;
  std::uint32_t largest = 0;
  std::int32_t exponent = Channels::exponent(scheme.channel(scales[0]));
  for (int c = 0; c < kChannels; ++c) {
    EXPECT_EQ(S::total_of(terms, joined_state, sums[c]), out[c].total());
    const S::Wide wide = scheme.finish(out[c].total(), scheme.channel(scales[c]));
    peak = c == 0 ? wide : scheme.larger(peak, wide);
    exponent = std::max(exponent, Channels::exponent(scheme.channel(scales[c])));
  }
  std::uint32_t largest_sum = 0;
  for (const auto& of_channel : sums)
    for (const std::int32_t sum : of_channel)
      largest_sum = std::max(largest_sum, static_cast<std::uint32_t>(std::abs(sum)));
  const auto factors = S::term_factors(terms, joined_state, largest_sum);
  std::int32_t output[kChannels];
  for (int c = 0; c < kChannels; ++c) {
    output[c] = factors.output(sums[c], Channels::factor(scheme.channel(scales[c]), exponent));
    largest = std::max(largest, static_cast<std::uint32_t>(std::abs(output[c])));
  }
  const auto codes = Quick::codes(largest, factors, exponent);
  if (!codes.sure) return false;
  const S::Ending ending = scheme.ending(state, {}, peak),
                  of_scale = S::ending(joined_state, codes.scale_exponent, factors.reciprocal);
  EXPECT_EQ(codes.scale_exponent, ending.scale_exponent);
  EXPECT_EQ(of_scale.reciprocal, ending.reciprocal);
  EXPECT_EQ(S::output_scale(codes.scale_exponent), scheme.output_scale(ending));
  bool decided = true;
  for (int c = 0; c < kChannels; ++c) {
    const S::Wide wide = scheme.finish(out[c].total(), scheme.channel(scales[c]));
    const std::int32_t code = scheme.output_code(wide, ending);
    EXPECT_EQ(scheme.output_code(wide, of_scale), code);
    const auto quick = codes.code(output[c]);
    const bool is_open = quick.above < codes.open();
    EXPECT_EQ(is_open, quick.above + codes.least_closed() >= codes.least_closed());
    if (is_open)
      decided = false;
    else
      EXPECT_EQ(quick.code, code);
  }
  return decided;
}

template <int kTerms>
int rows_decided(std::uint64_t seed, int trials) {
  constexpr int kChannels = 8;
  std::mt19937_64 bits(seed);
  int decided = 0;
  for (int trial = 0; trial < trials && !testing::Test::HasFailure(); ++trial) {
    const std::int64_t near = static_cast<std::int64_t>(bits() % 200000) - 100000;
    BlockOfRow<kChannels> blocks[kTerms];
    for (auto& b : blocks) b = some_block<kChannels>(bits, near);
    ChannelScales<ScalarLane> scales[kChannels];
    for (auto& s : scales)
      s = {bits() % 2 ? 1.0f : 1 + static_cast<float>(bits() % 8388608) / 8388608,
           static_cast<int>(bits() % 5)};
    decided += terms_are_bins(blocks, scales);
    if (testing::Test::HasFailure()) ADD_FAILURE() << "trial " << trial << " of seed " << seed;
  }
  return decided;
}

TEST(IntegerTerms, ANearReciprocalIsOneStepFromTheExactOne) {
  std::mt19937_64 bits(33);
  constexpr std::int64_t kLeast = std::int64_t{1} << 30, kWithin = 16;
  for (int trial = 0; trial < 200000 && !testing::Test::HasFailure(); ++trial) {
    const auto above = static_cast<std::int64_t>(bits() % (trial % 2 ? kLeast : 64));
    const std::int64_t x = trial % 4 ? kLeast + above : 2 * kLeast - 1 - above;
    const std::int64_t exact = integer::reciprocal_of_sum(x);
    for (const std::int64_t off : {-kWithin, static_cast<std::int64_t>(bits() % 32) - kWithin, kWithin})
      EXPECT_EQ(integer::reciprocal_of_sum(x, exact + off), exact) << x << " from " << off;
  }
}

TEST(IntegerTerms, OneBlockIsWhatBinsMakeOfIt) {
  constexpr int kTrials = 100000;
  EXPECT_GT(rows_decided<1>(31, kTrials), kTrials * 9 / 10)
      << "the quick way is not taken where it should be";
}

TEST(IntegerTerms, TwoBlocksAreWhatBinsMakeOfThem) {
  constexpr int kTrials = 200000;
  EXPECT_GT(rows_decided<2>(32, kTrials), kTrials * 8 / 10)
      << "the quick way is not taken where it should be";
}

}  // namespace
}  // namespace octet
