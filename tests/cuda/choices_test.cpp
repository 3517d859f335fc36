// What the CUDA backend decides on the host from the problem alone; needs no GPU.
#include <gtest/gtest.h>

#include "core/schemes.h"
#include "cuda/cuda.h"
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

TEST(RangeCut, QueryHeadsThatShareKeysAreRowsOfOneHead) {
  const cuda::RangeCut one(few_rows(1, 4096), 4), several(few_rows(3, 4096), 4);
  EXPECT_EQ(one.heads, 8);
  EXPECT_EQ(one.joined, 4);
  EXPECT_EQ(one.rows(), 4);
  EXPECT_EQ(several.rows(), 12);
  // 4 ranges of 2 batch entries of 32 rows of 128 channels and their LSE, in f32.
  EXPECT_EQ(one.bytes(), 4 * 2 * 32 * 129 * 4);
  AttentionDesc bias = few_rows(1, 4096);
  bias.bias = AttentionDesc::Bias::additive;
  const cuda::RangeCut apart(bias, 4);
  EXPECT_EQ(apart.heads, 32) << "each head has a bias of its own";
  EXPECT_EQ(apart.joined, 1);
}

TEST(RangeCut, CallsOfCodesAndOfOneKeyBlockAreNotCut) {
  EXPECT_TRUE(cuda::may_have_ranges(few_rows(1, 4096)));
  AttentionDesc codes = few_rows(1, 4096);
  codes.output = DType::s8;
  EXPECT_FALSE(cuda::may_have_ranges(codes));
  EXPECT_FALSE(cuda::may_have_ranges(few_rows(1, 128)));
}

TEST(RangeCut, OnlyKeyBlocksThatRowsSeeAreCounted) {
  EXPECT_EQ(cuda::seen_blocks(few_rows(1, 4096)), 32);
  EXPECT_EQ(cuda::seen_blocks(few_rows(1, 4097)), 33);
  AttentionDesc window = few_rows(4, 4096);
  window.window_left = 1000;
  EXPECT_EQ(cuda::seen_blocks(window), 32) << "to the right all are seen";
  window.mask = Mask::causal;
  EXPECT_EQ(cuda::seen_blocks(window), 8);
  window.mask = Mask::none, window.window_right = 20;
  EXPECT_EQ(cuda::seen_blocks(window), 8);
  window.window_right = 24;
  EXPECT_EQ(cuda::seen_blocks(window), 9);
}

TEST(RangeCut, OfPackedSequencesOneOfAverageLengthHasAPartOfTheRanges) {
  AttentionDesc packed = few_rows(8, 8 * 4096);
  packed.batch = 1, packed.sequences = 8;
  EXPECT_EQ(cuda::seen_blocks(packed), 32);
  const cuda::RangeCut cut(packed, 3 * cuda::RangeCut::kLongest);
  EXPECT_EQ(cut.least_blocks, 11);  // of 32: three ranges
  EXPECT_EQ(cut.rows(), 32);
  EXPECT_EQ(cuda::RangeCut(few_rows(1, 4096), 4).least_blocks, 1) << "dense ones are as long as told";
}

TEST(RangeCut, OfManyPackedRowsTheWorkspaceStaysWithinWhatIsPlannedFor) {
  const auto of_ranges = [](std::int64_t tokens_q, std::int64_t heads_kv) {
    AttentionDesc packed = few_rows(tokens_q, 49 * 4096);
    packed.batch = 1, packed.sequences = 49, packed.heads_kv = heads_kv;
    AttentionDesc of_codes = packed;  // which is not cut
    of_codes.output = DType::s8;
    return cuda::workspace_bytes(packed) - cuda::workspace_bytes(of_codes);
  };
  constexpr std::int64_t kHeads = 32, kPlanned = 16384, kRow = 129 * sizeof(float);
  EXPECT_GE(of_ranges(49, kHeads), 4 * 49 * kHeads * kRow) << "a token each";
  EXPECT_LE(of_ranges(49, kHeads), 4 * kPlanned * kRow);
  EXPECT_EQ(of_ranges(2048, kHeads), 0) << "a prompt among them: 42 rows of a sequence on average";
  EXPECT_EQ(of_ranges(700, 8), 2 * 700 * kHeads * kRow) << "57 rows of a key head";
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
