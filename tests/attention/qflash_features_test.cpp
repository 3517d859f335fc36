// QFlash and QAttn beyond their benchmark: biases, masks and the LSE, which the papers' kernels have in part.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/attention/harness.h"

namespace octet::testing {
namespace {

/// A Swin-like call: 49 tokens, a relative bias, and a window mask that cuts the tokens in two halves.
Case swin(Scheme scheme, float hiding) {
  Case c = self_attention(scheme, 2, 49, 32);
  c.bias.resize(2 * 49 * 49);
  for (std::size_t i = 0; i < c.bias.size(); ++i) {
    const std::size_t row = i / 49 % 49, key = i % 49;
    c.bias[i] = (row < 24) == (key < 24) ? 0.1f * static_cast<float>(i % 11) : hiding;
  }
  return c;
}

TEST(QFlashFeatures, FollowsAnAdditiveBiasAndAMask) {
  const float hidden = -std::numeric_limits<float>::infinity();
  EXPECT_GT(run(swin(Scheme::qflash, hidden)).sqnr_db(), 31.0);
  EXPECT_GT(run(swin(Scheme::qattn, hidden)).sqnr_db(), 35.0);
}

/// At the benchmark's scales the published mask, -2^20 in the score, is far enough down to equal a hidden
/// key.
TEST(QFlashFeatures, FiniteMaskEqualsAHiddenKeyAtTheBenchmarksScale) {
  const Outcome finite = run(swin(Scheme::qflash, -101));
  EXPECT_EQ(finite.o, run(swin(Scheme::qflash, -std::numeric_limits<float>::infinity())).o);
}

/// At small scales it is not: masked keys leak into the output, as published.
TEST(QFlashFeatures, FiniteMaskLeaksAtSmallScales) {
  Case finite = swin(Scheme::qflash, -101),
       hidden = swin(Scheme::qflash, -std::numeric_limits<float>::infinity());
  finite.scale = hidden.scale = 0.1f;                  // M_e rounds to 0, and no P code wraps
  finite.desc.key_block = hidden.desc.key_block = 49;  // no padding keys, which would leak in both
  EXPECT_GT(run(hidden).sqnr_db(), run(finite).sqnr_db() + 6);
}

TEST(QFlashFeatures, CausalRowsWithoutAKeyAreZero) {
  for (Scheme scheme : {Scheme::qflash, Scheme::qattn}) {
    Case c = self_attention(scheme, 1, 9, 16);
    c.desc.tokens_k = 5, c.desc.mask = Mask::causal;
    const Outcome result = run(c);
    for (std::size_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(std::isinf(result.lse[i])) << scheme_info(scheme).name << ", row " << i;
      for (std::size_t ch = 0; ch < 16; ++ch) ASSERT_EQ(result.o[i * 16 + ch], 0);
    }
  }
}

/// Codes of Q and K move a score by some tenths of a nat; ShiftExp2 adds up to ln 1.0615.
TEST(QFlashFeatures, LseFollowsTheSum) {
  for (Scheme scheme : {Scheme::qflash, Scheme::qattn}) {
    const Outcome result = run(self_attention(scheme, 2, 70, 32));
    for (std::size_t i = 0; i < result.lse.size(); ++i) {
      ASSERT_NEAR(result.lse[i], result.exact_lse[i], 0.35) << scheme_info(scheme).name << ", row " << i;
    }
  }
}

}  // namespace
}  // namespace octet::testing
