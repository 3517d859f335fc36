// What the CUDA backend decides on the host from the problem alone; needs no GPU.
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "core/schemes.h"
#include "cuda/cuda.h"
#include "cuda/hopper_cuts.h"
#include "cuda/mma/tile.h"
#include "cuda/mma/turns.h"
#include "cuda/ranges.h"
#include "cuda/wgmma/fill.h"
#include "cuda/wgmma/order.h"
#include "cuda/wgmma/shares.h"

namespace octet::testing {
namespace {

AttentionDesc few_rows(std::int64_t tokens_q, std::int64_t tokens_k) {
  AttentionDesc d;
  d.scheme = Scheme::int8, d.batch = 2, d.heads_q = 32, d.heads_kv = 8;
  d.tokens_q = tokens_q, d.tokens_k = tokens_k;
  d.head_dim = d.head_dim_v = 128, d.key_block = 128, d.output = DType::f16;
  return d;
}

/// On 132 processors, three blocks of threads each.
std::int64_t row_tiles(std::int64_t heads, std::int64_t tiles, std::int64_t key_blocks = 2) {
  return cuda::mma::row_tiles_of_block({heads, tiles, key_blocks, 3, 132});
}

TEST(RowTiles, OfAFullCardABlockOfThreadsHasAllOfAHead) {
  EXPECT_EQ(row_tiles(6144, 4), 4) << "197 rows of 1024 x 6 heads";
  EXPECT_EQ(row_tiles(384, 4), 4) << "blocks of threads for nearly all places";
  EXPECT_EQ(row_tiles(1024, 5, 3), 5) << "a number that is no power of two";
}
TEST(RowTiles, WhereBlocksOfThreadsWouldBeFewTheyHaveLess) {
  EXPECT_EQ(row_tiles(96, 4), 1) << "two tiles a block would leave half of the places empty";
  EXPECT_EQ(row_tiles(3, 4), 1);
  EXPECT_EQ(row_tiles(20, 256), 8) << "16384 rows";
  EXPECT_EQ(row_tiles(1, 1), 1);
}
TEST(RowTiles, BeginningCountsMoreWhereATileOfRowsIsShort) {
  constexpr std::int64_t kHeads = 20, kTiles = 64;  // of 4096 rows: two or three blocks a processor
  EXPECT_EQ(row_tiles(kHeads, kTiles, 1), 4);
  EXPECT_EQ(row_tiles(kHeads, kTiles, 2), 2);
}
/// Of 257 tokens, five tiles a head, two blocks of threads a processor (plain_parts() of cuts.cu).
TEST(RowTiles, BlocksOfThreadsThatWaitForAProcessorAreAnotherWave) {
  const auto tiles = [](std::int64_t heads) {
    return cuda::mma::row_tiles_by_waves({heads, 5, 3, 2, 132, 0.4});
  };
  EXPECT_EQ(tiles(16), 1) << "80 blocks of threads, a processor each";
  EXPECT_EQ(tiles(8 * 16), 3) << "256 at once, where two tiles would be 384";
  EXPECT_EQ(tiles(64 * 16), 5);
}
TEST(RowTiles, TilesThatKeepKeysAreForAsManyBlocksAsTheyHold) {
  using cuda::mma::keeping_tile, cuda::mma::kTileTable, cuda::mma::tile_for;
  const int tile = tile_for(64, 128);
  EXPECT_EQ(kTileTable[keeping_tile(tile, 3, 112, 1)].computed, 112);
  EXPECT_EQ(kTileTable[keeping_tile(tile, 2, 128, 1)].computed, 128);
  EXPECT_EQ(kTileTable[keeping_tile(tile, 1, 88, 1)].computed, 112);
  EXPECT_EQ(kTileTable[keeping_tile(tile, 1, 77, 1)].computed, 128) << "which computes 80 of them";
  EXPECT_EQ(keeping_tile(tile, 3, 128, 1), -1);
  EXPECT_EQ(keeping_tile(tile, 3, 112, 2), -1) << "of 16-bit values";
  const int two = cuda::mma::keeping_parts(tile, 2, 3), four = cuda::mma::keeping_parts(tile, 4, 2);
  EXPECT_EQ(cuda::mma::kept_blocks(kTileTable[two], 2), 3);
  EXPECT_EQ(cuda::mma::kept_blocks(kTileTable[four], 2), 2);
  const int more = cuda::mma::keeping_parts(tile, 4, 3);
  EXPECT_EQ(cuda::mma::kept_blocks(kTileTable[more], 2), 5);
  EXPECT_EQ(cuda::mma::keeping_parts(tile, 2, 4), -1);
  EXPECT_EQ(cuda::mma::keeping_parts(tile, 4, 6), -1);
  EXPECT_EQ(cuda::mma::keeping_parts(tile, 3, 2), -1);
  EXPECT_EQ(keeping_tile(tile, 4, 112, 1), -1);
  EXPECT_EQ(keeping_tile(tile_for(128, 128), 1, 128, 1), -1);
}

TEST(PackedValues, AreWrittenByTheQuantiserWhereConstantsAreAllThatIsLeft) {
  alignas(64) std::byte workspace[64];
  const auto is_packed = [&](const auto& change) {
    AttentionDesc d = few_rows(16, 4000);
    d.recipe = scheme_info(d.scheme).recipe;
    change(d);
    const cuda::PackedValues values = cuda::packed_values(d, workspace);
    EXPECT_TRUE(!values.data || (values.blocks_of_sequence == 32 && values.blocks_per_head == 64));
    return values.data == workspace;
  };
  EXPECT_TRUE(is_packed([](AttentionDesc&) {}));
  EXPECT_TRUE(is_packed([](AttentionDesc& d) { d.head_dim = d.head_dim_v = 64; }));
  EXPECT_TRUE(is_packed([](AttentionDesc& d) { d.scheme = Scheme::integer; }));
  EXPECT_TRUE(is_packed([](AttentionDesc& d) { d.recipe.v = Granularity::channel; }));
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.scheme = Scheme::int4; })) << "K is packed as s8";
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.scheme = Scheme::int8_half; })) << "V in 16 bits";
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.scheme = Scheme::qattn; }))
      << "V is scaled as it is packed";
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.head_dim = 96; })) << "K is packed with zeros";
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.head_dim_v = 96; }));
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.key_block = 100; }));
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.recipe.v = Granularity::block_channel; }));
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.sequences = 3, d.batch = 1; }));
  EXPECT_FALSE(is_packed([](AttentionDesc& d) { d.head_dim = d.head_dim_v = 64, d.key_block = 64; }))
      << "a tile of 64 places";
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

TEST(RangeCut, OfHoppersKernelsTheLastHeadsOfAllBatchEntriesAreCut) {
  cuda::Cut cut;
  cut.family = cuda::Family::wgmma, cut.ranges = 3, cut.last_heads = 40;
  const cuda::RangeCut some(few_rows(200, 8192), cut);
  EXPECT_EQ(some.joined, 1);
  EXPECT_EQ(some.first_head, 24);
  EXPECT_EQ(some.bytes(), 3 * 40 * 200 * 129 * std::int64_t{sizeof(float)});
  cut.last_heads = 0;
  EXPECT_EQ(cuda::RangeCut(few_rows(200, 8192), cut).count, 64);
}

TEST(RangeCut, WhatAPlanNeedsHoldsTheRangesOfHoppersKernels) {
  const auto of_ranges = [](std::int64_t tokens_q, Mask mask) {
    AttentionDesc d = few_rows(tokens_q, 8192), of_codes = d;
    d.mask = of_codes.mask = mask, of_codes.output = DType::s8;
    EXPECT_EQ(cuda::hopper_range_bytes(of_codes), 0);
    EXPECT_GE(cuda::workspace_bytes(d), cuda::workspace_bytes(of_codes) + cuda::hopper_range_bytes(d));
    return cuda::hopper_range_bytes(d);
  };
  EXPECT_EQ(of_ranges(10, Mask::causal), 8 * 64 * 10 * 129 * std::int64_t{sizeof(float)});
  EXPECT_EQ(of_ranges(2000, Mask::causal), 32 << 20);
  EXPECT_EQ(of_ranges(8192, Mask::causal), 0) << "tiles that are not as long as each other";
  EXPECT_EQ(of_ranges(8192, Mask::none), 32 << 20);
}

struct Rows {
  std::int32_t row, begin, query_rows;
};
/// A call's tiles in their order: each query row of each row is in one of them.
std::vector<Rows> in_order(const cuda::wgmma::RowTiles& tiles, std::int64_t of_row, std::int64_t rows) {
  std::vector<Rows> order;
  std::vector<std::vector<int>> times(static_cast<std::size_t>(rows),
                                      std::vector<int>(static_cast<std::size_t>(of_row)));
  for (std::int32_t i = 0; i < tiles.count; ++i) {
    const auto [row, begin] = cuda::wgmma::place_of_tile(tiles, i);
    const auto end = std::min<std::int64_t>(begin + cuda::wgmma::own_rows(tiles, i, begin), of_row);
    EXPECT_TRUE(row >= 0 && row < rows && begin >= 0 && begin < end)
        << "tile " << i << " of row " << row << " from " << begin;
    if (::testing::Test::HasFailure()) return order;
    for (std::int64_t at = begin; at < end; ++at)
      ++times[static_cast<std::size_t>(row)][static_cast<std::size_t>(at)];
    order.push_back({row, begin, static_cast<std::int32_t>(end) - begin});
  }
  for (const auto& of_one : times) EXPECT_EQ(std::ranges::count(of_one, 1), of_row);
  return order;
}

TEST(TileOrder, TheLongestTilesOfASetOfRowsComeFirst) {
  constexpr std::int64_t kQueryRows = 192;
  for (const std::int64_t tiles : {1, 2, 6, 22})
    for (const std::int64_t sequences : {1, 3})
      for (const std::int64_t heads : {1, 7, 32})
        for (const std::int64_t most : {1, 8, 12, 1000}) {
          const std::int64_t rows = sequences * heads;
          const auto of = cuda::wgmma::longest_first(tiles, {heads, 0, rows, kQueryRows}, most, 0);
          const std::int64_t together = of.together;
          EXPECT_LE(together, most);
          EXPECT_EQ(rows % together, 0);
          const auto order = in_order(of, tiles * kQueryRows, rows);
          for (std::size_t i = 0; i < order.size(); ++i) {
            const auto set = static_cast<std::int64_t>(i) / (together * tiles);
            EXPECT_EQ(order[i].row / together, set);
            const bool has_before = i > 0 && order[i - 1].row / together == set;
            EXPECT_TRUE(!has_before || order[i].begin <= order[i - 1].begin);
          }
        }
  EXPECT_EQ(std::int32_t{cuda::wgmma::longest_first(6, {32, 0, 32, kQueryRows}, 92, 0).together}, 32);
  EXPECT_EQ(std::int32_t{cuda::wgmma::longest_first(6, {32, 0, 96, kQueryRows}, 20, 0).together}, 16);
  EXPECT_EQ(std::int32_t{cuda::wgmma::longest_first(6, {7, 0, 7, kQueryRows}, 5, 0).together}, 1);
}

TEST(TileOrder, TheFirstTileLacksTheRowsThatARowHasNot) {
  for (const std::int32_t query_rows : {64, 128, 192}) {
    for (const std::int32_t of_row : {1, query_rows - 1, query_rows, query_rows + 1, 1000, 1024}) {
      const std::int32_t count = (of_row + query_rows - 1) / query_rows;
      const auto tiles =
          cuda::wgmma::longest_first(count, {1, 0, 1, query_rows}, 1, count * query_rows - of_row);
      for (const auto& place : in_order(tiles, of_row, 1))
        EXPECT_TRUE(place.begin == 0 || place.query_rows == query_rows) << of_row << " rows, " << place.begin;
    }
  }
}

TEST(TileOrder, RowsComeOneAfterTheOtherAndShortTilesLast) {
  constexpr std::int64_t kQueryRows = 192, kOfRow = 4 * kQueryRows + 10;
  for (const std::int64_t rows : {1, 6, 21}) {
    const auto order = in_order(cuda::wgmma::row_after_row(5, {rows, 0, rows, kQueryRows}), kOfRow, rows);
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(order[i].row, static_cast<std::int32_t>(i / 5));
      EXPECT_EQ(order[i].begin, static_cast<std::int32_t>(kQueryRows * (4 - i % 5)));
    }
    const std::int64_t heads = (rows / 3 + 1) * 3;
    const auto short_last =
        in_order(cuda::wgmma::short_ones_last(5, {3, 0, heads, kQueryRows}), kOfRow, heads);
    const auto whole = static_cast<std::size_t>(heads * 4);
    for (std::size_t i = 0; i < short_last.size(); ++i)
      EXPECT_EQ(short_last[i].query_rows < kQueryRows, i >= whole);
  }
}

TEST(TileOrder, SmallTilesComeBehindFullOnes) {
  constexpr std::int64_t kQueryRows = 192;
  for (const std::int64_t rows : {1, 7, 40})
    for (const std::int64_t of_row : {1, 64, 192, 200, 383, 1000, 1024})
      for (const std::int64_t small : {64, 128})
        for (const std::int64_t with_small : {std::int64_t{1}, rows / 2, rows}) {
          if (with_small == 0) continue;
          const auto order =
              in_order(cuda::wgmma::small_ones_last({rows, 0, rows, kQueryRows}, of_row, with_small, small),
                       of_row, rows);
          const auto full = cuda::wgmma::full_tiles_before(of_row, kQueryRows, small) * (rows - with_small);
          for (std::size_t i = 0; i < order.size(); ++i) {
            const bool is_full = static_cast<std::int64_t>(i) < full;
            EXPECT_EQ(order[i].query_rows == kQueryRows, is_full) << of_row << " rows, tile " << i;
            EXPECT_TRUE(is_full || order[i].query_rows <= small);
          }
        }
  EXPECT_EQ(cuda::wgmma::full_tiles_before(1024, kQueryRows, 64), 5);
  EXPECT_EQ(cuda::wgmma::full_tiles_before(1024, kQueryRows, 128), 4) << "and two of 128";
  EXPECT_EQ(cuda::wgmma::full_tiles_before(1152, kQueryRows, 128), 6);
}

constexpr double kCodes = 0.3, kHalves = 0.4;  // Work::shortest

/// Of tiles of 192 rows on 132 processors.
cuda::wgmma::Work work_of(std::int64_t heads, std::int64_t rows, double shortest) {
  cuda::wgmma::Work work;
  work.heads = heads, work.rows = rows, work.warpgroups = 3;
  work.processors = 132, work.shortest = shortest;
  return work;
}
/// With outputs of f32 and room for 32 MiB of them.
cuda::wgmma::Shares shares_of(std::int64_t heads, std::int64_t rows, double key_blocks, std::int64_t dim,
                              double shortest) {
  cuda::wgmma::Work work = work_of(heads, rows, shortest);
  const std::int64_t of_tile = work.rows_of_tile();
  work.key_blocks = key_blocks;
  work.most_with_ranges = (32 << 20) / (of_tile * cuda::RangeCut::bytes_of_row(dim));
  work.merging = static_cast<double>(of_tile * dim) * 5 / (132.0 * 192 * 128);
  return cuda::wgmma::shares_of(work);
}

/// What docs/cuda-measurements.md has measured.
TEST(Shares, HeadsThatFillNoTurnHaveSmallTilesOrRanges) {
  struct Want {
    std::int64_t heads, ranges, warpgroups;
  };
  const auto expect = [](const cuda::wgmma::Shares& got, const Want& want) {
    EXPECT_EQ(got.heads, want.heads);
    EXPECT_EQ(got.ranges, want.ranges);
    EXPECT_EQ(got.warpgroups, want.warpgroups);
    EXPECT_TRUE(got.busy > 0 && got.busy <= 1) << got.busy;
  };
  expect(shares_of(20, 4096, 32, 64, kCodes), {2, 0, 1});
  expect(shares_of(24, 4608, 36, 128, kCodes), {2, 0, 2});
  expect(shares_of(32, 128, 64, 128, kCodes), {32, 4, 0});
  expect(shares_of(32, 256, 63, 128, kCodes), {32, 0, 1});
  expect(shares_of(32, 512, 62, 128, kCodes), {32, 0, 2});
  expect(shares_of(32, 1024, 60, 128, kCodes), {6, 0, 1});
  expect(shares_of(32, 1024, 8, 64, kCodes), {6, 0, 1});
  expect(shares_of(64, 4096, 32, 128, kCodes), {0, 0, 0});
  expect(shares_of(40, 1024, 8, 64, kCodes), {7, 0, 2});
  expect(shares_of(20, 4096, 32, 64, kHalves), {2, 0, 1});
  expect(shares_of(24, 4608, 36, 128, kHalves), {2, 2, 0});
  expect(shares_of(32, 512, 62, 128, kHalves), {32, 0, 2});
}

/// Rows that see all keys, or those up to their own place, of key blocks of 128.
TEST(Shares, ACallThatBeginsAllOfItsTilesAtOnceHasSmallerOnesWhereItEndsEarlier) {
  enum class Sees { all, own };
  const auto warpgroups_of = [](Sees sees, std::int64_t heads, std::int64_t tokens, std::int64_t of_full) {
    cuda::wgmma::Work work = work_of(heads, tokens, kCodes);
    work.warpgroups = of_full, work.key_block = 128;
    work.key_blocks = static_cast<double>((tokens + 127) / 128);
    if (sees == Sees::own) work.keys = tokens;
    const cuda::wgmma::Shares got = cuda::wgmma::shares_of(work);
    EXPECT_EQ(got.heads, got.warpgroups == 0 ? 0 : heads);
    EXPECT_EQ(got.ranges, 0);
    return got.warpgroups;
  };
  EXPECT_EQ(warpgroups_of(Sees::own, 32, 256, 3), 1);
  EXPECT_EQ(warpgroups_of(Sees::own, 32, 384, 3), 2);
  EXPECT_EQ(warpgroups_of(Sees::own, 16, 1024, 3), 2);
  EXPECT_EQ(warpgroups_of(Sees::own, 16, 1024, 4), 2);
  EXPECT_EQ(warpgroups_of(Sees::own, 8, 64, 3), 0) << "one warpgroup has all rows anyway";
  EXPECT_EQ(warpgroups_of(Sees::all, 24, 320, 3), 1);
  EXPECT_EQ(warpgroups_of(Sees::all, 32, 512, 3), 2);
  EXPECT_EQ(warpgroups_of(Sees::all, 24, 768, 3), 0);
  EXPECT_EQ(warpgroups_of(Sees::all, 24, 768, 4), 3);
}

/// Processors that take the next tile whenever they are done.
TEST(Shares, ACallEndsWhenAllProcessorsHaveTakenWhatIsLeft) {
  for (const std::int64_t processors : {1, 3, 132})
    for (const std::int64_t longer : {0, 1, 3, 100, 300})
      for (const std::int64_t shorter : {0, 1, 50, 400})
        for (const double time : {2.0, 5.0, 9.0}) {
          constexpr double kLonger = 10, kLast = 3;
          constexpr std::int64_t kLastOnes = 40;
          std::multiset<double> ends;
          for (std::int64_t i = 0; i < processors; ++i) ends.insert(0);
          cuda::wgmma::Processors got(processors);
          const auto take = [&](std::int64_t count, double of_tile) {
            got.take(count, of_tile);
            for (std::int64_t i = 0; i < count; ++i) {
              const double begin = *ends.begin();
              ends.erase(ends.begin());
              ends.insert(begin + of_tile);
            }
            EXPECT_EQ(got.end(), *ends.rbegin()) << longer << ", " << shorter << ", " << time;
          };
          take(longer, kLonger);
          take(shorter, time);
          take(kLastOnes, kLast);
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
