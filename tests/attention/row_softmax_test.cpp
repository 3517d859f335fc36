// The features of attention in the loop nest of whole rows: what a row sees, and that nothing else reaches
// it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention/harness.h"

namespace octet::testing {
namespace {

constexpr double kStandardSqnr = 50;  // dB: f16 scores and weights on U(-4, 4); 59 to 61 measured
constexpr Scheme kRowSchemes[] = {Scheme::standard, Scheme::ivit, Scheme::ibert, Scheme::fqvit};

/// Everything at once: GQA, cross lengths, different dims, causal, a window, a bias that hides some keys.
TEST(RowSoftmax, StandardFollowsExactWithEveryFeature) {
  Case c = self_attention(Scheme::standard, 4, 40, 32);
  c.desc.batch = 2, c.desc.heads_kv = 2, c.desc.tokens_k = 75, c.desc.head_dim_v = 24;
  c.desc.mask = Mask::causal, c.desc.window_left = 30;
  c.bias.resize(4 * 40 * 75);
  for (std::size_t i = 0; i < c.bias.size(); ++i)
    c.bias[i] = i % 7 == 3 ? -std::numeric_limits<float>::infinity() : 0.25f * static_cast<float>(i % 5);
  const Outcome result = run(c);
  EXPECT_GT(result.sqnr_db(), kStandardSqnr);
  for (std::size_t i = 0; i < result.lse.size(); ++i) {
    ASSERT_NEAR(result.lse[i], result.exact_lse[i], 1e-2)
        << "row " << i;  // scores near 30 have f16 steps of 1/64
  }
}

TEST(RowSoftmax, EmptyRowsAreZeroWithLseMinusInfinity) {
  for (Scheme scheme : kRowSchemes) {
    Case c = self_attention(scheme, 2, 9, 16);
    c.desc.tokens_k = 5, c.desc.mask = Mask::causal;  // rows 0 to 3 stand before the first key
    const Outcome result = run(c);
    for (std::size_t h = 0; h < 2; ++h) {
      for (std::size_t i = 0; i < 9; ++i) {
        const bool empty = i < 4;
        ASSERT_EQ(std::isinf(result.lse[h * 9 + i]), empty) << scheme_info(scheme).name << ", row " << i;
        for (std::size_t ch = 0; empty && ch < 16; ++ch) ASSERT_EQ(result.o[(h * 9 + i) * 16 + ch], 0);
      }
    }
  }
}

/// Two packed sequences equal the same sequences alone. Scales per tensor and I-ViT's range would couple
/// them, so `standard`.
TEST(RowSoftmax, PackedSequencesEqualTheSameSequencesAlone) {
  Case packed = self_attention(Scheme::standard, 1, 30, 16);
  packed.cu_seqlens_q = packed.cu_seqlens_k = {0, 13, 30};
  const Inputs in = random_inputs(packed);
  const Outcome both = run(packed, in);
  for (int s = 0; s < 2; ++s) {
    const std::int64_t begin = packed.cu_seqlens_q[static_cast<std::size_t>(s)] * 16;
    const std::int64_t end = packed.cu_seqlens_q[static_cast<std::size_t>(s) + 1] * 16;
    const auto part = [&](const std::vector<float>& x) {
      return std::vector<float>(x.begin() + begin, x.begin() + end);
    };
    const Case alone = self_attention(Scheme::standard, 1, (end - begin) / 16, 16);
    EXPECT_EQ(run(alone, {part(in.q), part(in.k), part(in.v)}).o, part(both.o)) << "sequence " << s;
  }
}

/// Keys that no row sees change nothing, not even I-ViT's range: the last 20 keys are hidden by a mask, then
/// absent.
TEST(RowSoftmax, HiddenKeysEqualAbsentKeys) {
  for (Scheme scheme : kRowSchemes) {
    Case c = self_attention(scheme, 1, 6, 16);
    c.desc.tokens_k = 50;
    Inputs in = random_inputs(c);
    in.k.front() = in.v.front() = 4;  // the largest of K and V are among the keys that stay, so scales agree
    c.bias.assign(6 * 50, 0);
    for (std::size_t i = 0; i < 6; ++i)
      std::fill_n(&c.bias[i * 50 + 30], 20, -std::numeric_limits<float>::infinity());
    Case shorter = c;
    shorter.desc.tokens_k = 30, shorter.bias.clear();
    Inputs less = in;
    less.k.resize(30 * 16), less.v.resize(30 * 16);
    const Outcome hidden = run(c, in), absent = run(shorter, less);
    EXPECT_EQ(hidden.o, absent.o) << scheme_info(scheme).name;
    EXPECT_EQ(hidden.lse, absent.lse) << scheme_info(scheme).name;
  }
}

/// LSE from integer sums: i-exp is nearly unbiased; Shiftmax's line and coarse scores are not.
TEST(RowSoftmax, LseFollowsTheIntegerSum) {
  const auto largest_error = [](Scheme scheme) {
    const Outcome result = run(self_attention(scheme, 2, 60, 32));
    float worst = 0;
    for (std::size_t i = 0; i < result.lse.size(); ++i)
      worst = std::max(worst, std::abs(result.lse[i] - result.exact_lse[i]));
    return worst;
  };
  // Quantising Q and K moves a score of d = 32 by up to about 0.3 nats.
  EXPECT_LT(largest_error(Scheme::ibert), 0.3f);
  EXPECT_LT(largest_error(Scheme::fqvit), 0.3f);
  EXPECT_LT(largest_error(Scheme::ivit), 1.0f);
}

}  // namespace
}  // namespace octet::testing
