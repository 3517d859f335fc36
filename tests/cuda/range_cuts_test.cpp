// Who merges the ranges of a call's keys on the current device (cuda/range_cuts.h).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "core/schemes.h"
#include "cuda/cuda.h"
#include "cuda/runtime/device.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

/// One token of a model of 32 query heads over 8.
AttentionDesc token(std::int64_t batch, std::int64_t tokens_k) {
  AttentionDesc d;
  d.scheme = Scheme::int8, d.batch = batch, d.heads_q = 32, d.heads_kv = 8;
  d.tokens_q = 1, d.tokens_k = tokens_k;
  d.head_dim = d.head_dim_v = 128, d.key_block = 128, d.output = DType::f16;
  return d;
}

class Merging : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
    constexpr std::int64_t kMeasured = 132;  // processors, of which the choices were measured
    if (!cuda::runtime::is_hopper() || cuda::runtime::processors() != kMeasured)
      GTEST_SKIP() << "the choices are an H200's";
    if (std::getenv("CUDA_FORCE_PTX_JIT")) GTEST_SKIP() << "PTX of sm_89 and older knows no clusters";
  }
  static cuda::Cut cut_of(const AttentionDesc& d) { return cuda::cuts_of(d).front(); }
  static bool is_in_cluster(const AttentionDesc& d) {
    const cuda::Cut cut = cut_of(d);
    EXPECT_GT(cut.ranges, 1);
    return cut.merging == cuda::Merging::in_cluster;
  }
};

TEST_F(Merging, IsAClustersWhereItsBlocksOfThreadsHaveProcessorsOfTheirOwn) {
  EXPECT_TRUE(is_in_cluster(token(1, 4096)));
  EXPECT_TRUE(is_in_cluster(token(1, 2048)));
  EXPECT_TRUE(is_in_cluster(token(2, 4096)));
  EXPECT_FALSE(is_in_cluster(token(8, 4096))) << "two share a processor";
}

TEST_F(Merging, OfMoreRangesThanAClusterHasIsAKernels) {
  EXPECT_EQ(cut_of(token(1, 8192)).ranges, 32);
  EXPECT_FALSE(is_in_cluster(token(1, 8192)));
  EXPECT_FALSE(is_in_cluster(token(1, 32768)));
}

TEST_F(Merging, OfPackedSequencesIsAKernels) {
  AttentionDesc packed = token(1, 4 * 4096);
  packed.tokens_q = packed.sequences = 4;
  EXPECT_FALSE(is_in_cluster(packed)) << "the host does not see their lengths";
}

TEST_F(Merging, ByEitherIsAmongTheCuts) {
  bool is_there[2] = {};
  for (const cuda::Cut& cut : cuda::cuts_of(token(1, 4096)))
    if (cut.ranges > 0) is_there[cut.merging == cuda::Merging::in_cluster] = true;
  EXPECT_TRUE(is_there[0] && is_there[1]);
}

/// A query with NaN has no largest LSE, whoever merges its ranges, and is no query that sees no key.
TEST(MergedRanges, KeepNanOfAQueryInItsRow) {
  if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  constexpr std::int64_t kHead = 3, kToken = 1;
  Call call = normal_call(1, 8, 2, 4096, 128);
  call.q.each([](float& x, auto, auto h, auto t, auto) {
    if (h == kHead && t == kToken) x = std::numeric_limits<float>::quiet_NaN();
  });
  const auto expect_rows = [](Output& got, const std::string& where) {
    ASSERT_TRUE(got.status.ok()) << where << ": " << got.status.message();
    const auto expect = [&](float x, std::int64_t h, std::int64_t t) {
      EXPECT_EQ(std::isnan(x), h == kHead && t == kToken)
          << where << ", head " << h << ", token " << t << ": " << x;
    };
    got.o.each([&](float& x, auto, auto h, auto t, auto) { expect(x, h, t); });
    got.lse.each([&](float& x, auto, auto h, auto t, auto) { expect(x, h, t); });
  };
  for (const Scheme scheme : {Scheme::f16, Scheme::bf16}) {
    const std::string name(scheme_info(scheme).name);
    Output usual = run_on_device(call, scheme, Operands::plain);
    expect_rows(usual, name);
    CutsOnDevice cuts(call, scheme);
    ASSERT_TRUE(cuts.status().ok()) << name << ": " << cuts.status().message();
    for (std::size_t cut = 0; cut < cuts.count(); ++cut) {
      Output got = cuts.run(cut);
      expect_rows(got, name + ", cut " + std::to_string(cut));
    }
  }
}

}  // namespace
}  // namespace octet::testing
