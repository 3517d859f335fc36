// What the CUDA backend decides on the host from the problem alone; needs no GPU.
#include <gtest/gtest.h>

#include "core/schemes.h"
#include "cuda/ranges.h"
#include "cuda/wgmma/fill.h"

namespace octet::testing {
namespace {

AttentionDesc few_rows(std::int64_t tokens_q, std::int64_t tokens_k) {
  AttentionDesc d;
  d.scheme = Scheme::int8, d.batch = 2, d.heads_q = 32, d.heads_kv = 8;
  d.tokens_q = tokens_q, d.tokens_k = tokens_k;
  d.head_dim = d.head_dim_v = 128, d.key_block = 128, d.output = DType::f16;
  return d;
}

TEST(RangeCut, RangesHoldAllKeyBlocksAndNoneIsEmpty) {
  for (std::int64_t keys : {129, 1000, 4096, 32768}) {
    for (std::int32_t range_blocks : {1, 2, 3, 7, 64}) {
      const cuda::RangeCut cut(few_rows(1, keys), range_blocks);
      EXPECT_GE(cut.ranges() * range_blocks * 128, keys) << keys << ", " << range_blocks;
      EXPECT_LT((cut.ranges() - 1) * range_blocks * 128, keys) << keys << ", " << range_blocks;
    }
  }
}

TEST(RangeCut, QueryHeadsOfOneTokenThatShareKeysAreRowsOfOneHead) {
  const cuda::RangeCut one(few_rows(1, 4096), 8), several(few_rows(3, 4096), 8);
  EXPECT_TRUE(one.joins_heads);
  EXPECT_EQ(one.heads, 8);
  EXPECT_EQ(one.rows, 4);
  EXPECT_FALSE(several.joins_heads);
  EXPECT_EQ(several.heads, 32);
  EXPECT_EQ(several.rows, 3);
  // 4 ranges of 2 batch entries of 32 rows of 128 channels and their LSE, in f32.
  EXPECT_EQ(one.bytes(), 4 * 2 * 32 * 129 * 4);
}

TEST(RangeCut, CallsWhoseRowsSeeDifferentKeysAreNotCut) {
  EXPECT_TRUE(cuda::may_have_ranges(few_rows(1, 4096)));
  AttentionDesc causal = few_rows(1, 4096);
  causal.mask = Mask::causal;
  EXPECT_TRUE(cuda::may_have_ranges(causal)) << "the last token sees all keys";
  causal.tokens_q = 2;
  EXPECT_FALSE(cuda::may_have_ranges(causal));
  AttentionDesc window = few_rows(1, 4096);
  window.window_left = 100;
  EXPECT_FALSE(cuda::may_have_ranges(window));
  AttentionDesc bias = few_rows(1, 4096);
  bias.bias = AttentionDesc::Bias::additive;
  EXPECT_FALSE(cuda::may_have_ranges(bias));
  AttentionDesc packed = few_rows(1, 4096);
  packed.sequences = 3;
  EXPECT_FALSE(cuda::may_have_ranges(packed));
  AttentionDesc codes = few_rows(1, 4096);
  codes.output = DType::s8;
  EXPECT_FALSE(cuda::may_have_ranges(codes));
  EXPECT_FALSE(cuda::may_have_ranges(few_rows(1, 128))) << "one key block";
}

TEST(LeastFill, SchemesWithoutHoppersKernelsAndLoneBlocksOfFewChannelsAreNeverForThem) {
  constexpr std::int64_t kSeveral = 2, kOne = 1;
  for (const Scheme scheme : {Scheme::integer, Scheme::qflash, Scheme::qattn, Scheme::f32})
    for (int tile = 0; tile < cuda::wgmma::kTileCount; ++tile)
      EXPECT_GT(cuda::wgmma::least_fill(scheme, cuda::Form::general, tile, kSeveral), 100);
  for (const auto& of : cuda::wgmma::kLeastFill) {
    EXPECT_GT(cuda::wgmma::least_fill(of.scheme, cuda::Form::general, 0, kOne), 100);
    for (int tile = 1; tile < cuda::wgmma::kTileCount; ++tile)
      EXPECT_GT(cuda::wgmma::least_fill(of.scheme, cuda::Form::general, tile, kOne),
                cuda::wgmma::least_fill(of.scheme, cuda::Form::general, tile, kSeveral))
          << scheme_info(of.scheme).name;
  }
}

}  // namespace
}  // namespace octet::testing
