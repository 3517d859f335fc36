// What the CUDA backend decides on the host from the problem alone; needs no GPU.
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "core/schemes.h"
#include "cuda/cuda.h"
#include "cuda/ranges.h"
#include "cuda/wgmma/fill.h"
#include "cuda/wgmma/order.h"

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

/// The tiles of so many in a row, one after the other; each of them comes once.
std::vector<cuda::wgmma::TileNumber> in_order(const cuda::wgmma::RowTiles& tiles, std::int64_t of_row,
                                              std::int64_t rows) {
  EXPECT_EQ(tiles.count, of_row * rows);
  std::vector<cuda::wgmma::TileNumber> order;
  std::set<std::pair<std::int32_t, std::int32_t>> seen;
  for (std::int32_t i = 0; i < tiles.count; ++i) {
    order.push_back(cuda::wgmma::number_of_tile(tiles, i));
    const auto [row, tile] = order.back();
    EXPECT_TRUE(row >= 0 && row < rows && tile >= 0 && tile < of_row) << row << ", " << tile;
    EXPECT_TRUE(seen.insert({row, tile}).second) << row << ", " << tile << " comes twice";
  }
  return order;
}

TEST(TileOrder, TheLongestTilesOfASetOfRowsComeFirst) {
  for (const std::int64_t tiles : {1, 2, 6, 22})
    for (const std::int64_t sequences : {1, 3})
      for (const std::int64_t heads : {1, 7, 32})
        for (const std::int64_t most : {1, 8, 12, 1000}) {
          const std::int64_t rows = sequences * heads;
          const auto of = cuda::wgmma::longest_first(tiles, sequences, heads, most);
          const std::int64_t together = of.together;
          EXPECT_LE(together, most);
          EXPECT_EQ(rows % together, 0);
          const auto order = in_order(of, tiles, rows);
          for (std::size_t i = 0; i < order.size(); ++i) {
            const auto set = static_cast<std::int64_t>(i) / (together * tiles);
            EXPECT_EQ(order[i].row / together, set);
            const bool has_before = i > 0 && order[i - 1].row / together == set;
            EXPECT_TRUE(!has_before || order[i].tile <= order[i - 1].tile);
          }
        }
  EXPECT_EQ(std::int32_t{cuda::wgmma::longest_first(6, 1, 32, 92).together}, 32);
  EXPECT_EQ(std::int32_t{cuda::wgmma::longest_first(6, 3, 32, 20).together}, 16);
  EXPECT_EQ(std::int32_t{cuda::wgmma::longest_first(6, 1, 7, 5).together}, 1);
}

TEST(TileOrder, RowsComeOneAfterTheOtherAndShortTilesLast) {
  for (const std::int64_t rows : {1, 6, 21}) {
    const auto order = in_order(cuda::wgmma::row_after_row(5, 1, rows), 5, rows);
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(order[i].row, static_cast<std::int32_t>(i / 5));
      EXPECT_EQ(order[i].tile, static_cast<std::int32_t>(4 - i % 5));
    }
    const auto short_last = in_order(cuda::wgmma::short_ones_last(5, rows / 3 + 1, 3), 5, (rows / 3 + 1) * 3);
    const std::size_t whole = static_cast<std::size_t>((rows / 3 + 1) * 3 * 4);
    for (std::size_t i = 0; i < short_last.size(); ++i) EXPECT_EQ(short_last[i].tile == 4, i >= whole);
  }
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
