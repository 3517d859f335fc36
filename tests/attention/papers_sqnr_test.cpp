// SQNR of the papers' schemes under QFlash's protocol: A2 (6 heads, 197 tokens, d = 64) and A7 (24, 49, 32),
// inputs uniform on (-4, 4) and rounded to f16, against float64 attention of the same inputs; seeds pooled.
#include <gtest/gtest.h>

#include "tests/attention/harness.h"

namespace octet::testing {
namespace {

constexpr int kPaperSeeds = 4;

struct Protocol {
  double a2, a7;  // dB
};

Protocol sqnr(Scheme scheme, std::int64_t key_block = 128) {
  Case a2 = self_attention(scheme, 6, 197, 64), a7 = self_attention(scheme, 24, 49, 32);
  a2.desc.key_block = a7.desc.key_block = key_block;
  const Protocol result{pooled(a2, kPaperSeeds).sqnr_db(), pooled(a7, kPaperSeeds).sqnr_db()};
  ::testing::Test::RecordProperty("a2", std::to_string(result.a2));
  ::testing::Test::RecordProperty("a7", std::to_string(result.a7));
  return result;
}

/// The paper says 32.50 and 31.02; a bit model of its code gives 32.0-32.3 and 33.1-33.4. Its kernel's key
/// block is 32; wider ones release less often and lose less.
TEST(PapersSqnr, QFlashGivesTheFiguresOfItsCode) {
  const Protocol q = sqnr(Scheme::qflash, 32);
  EXPECT_GT(q.a2, 32.0);
  EXPECT_LT(q.a2, 32.5);
  EXPECT_GT(q.a7, 32.8);
  EXPECT_LT(q.a7, 33.5);
  const Protocol wide = sqnr(Scheme::qflash, 128);
  EXPECT_NEAR(wide.a2, 32.6, 0.2);
  EXPECT_NEAR(wide.a7, 33.5, 0.2);
}

/// The paper says 34.12 and 34.75; a bit model of the published kernel gives 36.2-36.8 and 37.0-37.6.
TEST(PapersSqnr, QAttnGivesTheFiguresOfItsKernel) {
  const Protocol q = sqnr(Scheme::qattn);
  EXPECT_NEAR(q.a2, 36.6, 0.3);
  EXPECT_NEAR(q.a7, 37.4, 0.3);
}

/// A bit model gives 34.6 and 36.1.
TEST(PapersSqnr, IBertGivesTheFiguresOfTheModel) {
  const Protocol q = sqnr(Scheme::ibert);
  EXPECT_NEAR(q.a2, 34.8, 0.4);
  EXPECT_NEAR(q.a7, 36.3, 0.4);
}

/// A bit model gives 13.9 and 14.6: powers of two are the limit.
TEST(PapersSqnr, FqVitGivesTheFiguresOfTheModel) {
  const Protocol q = sqnr(Scheme::fqvit);
  EXPECT_NEAR(q.a2, 13.9, 0.3);
  EXPECT_NEAR(q.a7, 14.6, 0.3);
}

/// The paper says 25.80 and 25.22, of one seed. Single seeds give 17 to 27: 1 / s, about 5, is rounded to an
/// integer.
TEST(PapersSqnr, IVitDependsOnTheSeed) {
  double least = 1000, most = 0;
  for (std::uint64_t seed = 1; seed <= kPaperSeeds; ++seed) {
    Case a2 = self_attention(Scheme::ivit, 6, 197, 64);
    a2.seed = seed;
    const double db = run(a2).sqnr_db();
    least = std::min(least, db), most = std::max(most, db);
  }
  EXPECT_GT(least, 16.5);
  EXPECT_LT(most, 27.5);
  EXPECT_GT(most - least, 3);
}

/// f16 storage of scores and weights alone: 59 and 61 dB, far above any 8-bit scheme.
TEST(PapersSqnr, StandardIsLimitedByItsF16Scores) {
  const Protocol q = sqnr(Scheme::standard);
  EXPECT_NEAR(q.a2, 59, 1);
  EXPECT_NEAR(q.a7, 61, 1);
}

}  // namespace
}  // namespace octet::testing
