#include "cuda/cuts.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/divided_up.h"
#include "cuda/hopper_cuts.h"
#include "cuda/mma/turns.h"
#include "cuda/plain/launch.cuh"
#include "cuda/range_cuts.h"
#include "cuda/ranges.h"
#include "cuda/runtime/device.h"
#include "quant/quantize.h"

namespace octet::cuda {
namespace {

/// Channels that the kernels' tile holds: rotation may have padded Q and K.
std::int64_t widest_dim(const AttentionDesc& d, std::int64_t code_dim) {
  return std::max(code_dim, d.head_dim_v);
}

/// Q's and K's channels as codes.
std::int64_t code_dim(const AttentionDesc& d) {
  return d.recipe.rotate == Rotate::on ? quant::rotated_dim(d.head_dim) : d.head_dim;
}

/// Keys of the widest key block that there can be.
std::int64_t widest_block(const AttentionDesc& d) {
  return d.sequences > 0 ? d.key_block : std::min(d.key_block, std::max<std::int64_t>(d.tokens_k, 1));
}

bool is_one_of(Granularity g, std::initializer_list<Granularity> list) {
  return std::ranges::find(list, g) != list.end();
}

}  // namespace

std::int64_t groups_of_sequence(std::int64_t tokens, std::int64_t size) { return divided_up(tokens, size); }

std::int64_t groups_of(const AttentionDesc& d, std::int64_t tokens, std::int64_t size) {
  if (d.sequences > 0) return tokens / size + d.sequences;
  return d.batch * groups_of_sequence(tokens, size);
}

std::int64_t key_blocks_of(const AttentionDesc& d) {
  const std::int64_t tokens = d.sequences > 0 ? d.tokens_k / d.sequences : d.tokens_k;
  return (tokens + d.key_block - 1) / d.key_block;
}

AttentionDesc with_keys(AttentionDesc d, std::int64_t tokens_k) {
  d.tokens_k = tokens_k;
  return d;
}

Form form_of(const AttentionDesc& d, Family family, E4m3 e4m3, PackedFor packed_for) {
  using G = Granularity;
  const bool hopper = family == Family::wgmma;
  const auto has = [&](Form form) {
    const mma::Kernels* kernels = mma::kernels_of(d.scheme, form);
    if (!kernels || (hopper && !wgmma::kernels_of(d.scheme, form))) return false;
    return !kernels->multiplies_e4m3 || (e4m3 == E4m3::as_it_is && runtime::multiplies_e4m3());
  };
  const bool is_of_call = packed_for == PackedFor::this_call && d.bias == AttentionDesc::Bias::none;
  if (is_of_call && is_one_of(d.recipe.v, {G::tensor, G::head, G::channel})) {
    if (is_one_of(d.recipe.k, {G::tensor, G::head, G::block}) && has(Form::uniform)) return Form::uniform;
    if (hopper && has(Form::late)) return Form::late;
  }
  return has(Form::native) ? Form::native : Form::general;
}

int tile_of(const AttentionDesc& d) { return mma::tile_for(widest_dim(d, code_dim(d)), widest_block(d)); }

const mma::Kernels& kernels_for(const AttentionDesc& d, const Cut& cut) {
  return *mma::kernels_of(d.scheme, form_of(d, cut.family, cut.e4m3, cut.packed_for));
}

std::int64_t blocks_of(const AttentionDesc& d, std::int32_t warps) {
  return groups_of(d, d.tokens_q, warps * mma::kRowsAWarp) * d.heads_q;
}

bool fits(const AttentionDesc& d, const Cut& cut) {
  const std::int64_t bytes = kernels_for(d, cut).shared_bytes(cut.tile, cut.warps);
  return bytes > 0 && bytes <= runtime::shared_bytes();
}

std::int32_t warps_of_rows(std::int64_t rows) {
  std::int32_t warps = 1;
  while (warps < mma::kMostWarps && rows > warps * mma::kRowsAWarp) warps *= 2;
  return warps;
}

namespace {

/// Whether all blocks of threads of a cut that parts the keys run at once, `most` a processor. Each part has
/// one buffer, into which its next key block is not copied ahead: where there are many, fewer may share a
/// processor.
bool runs_at_once(const AttentionDesc& d, const Cut& parts) {
  constexpr std::int64_t kMost = 3, kOfMany = 2;  // that registers hold; of halves, that were measured
  const mma::Kernels& kernels = kernels_for(d, parts);
  const bool has_many = key_blocks_of(d) > mma::kTileTable[parts.tile].key_parts;
  const std::int64_t most = has_many && kernels.k_bytes > 1 ? kOfMany : kMost;
  const std::int64_t fit = runtime::blocks_of(kernels.shared_bytes(parts.tile, parts.warps));
  return fits(d, parts) && blocks_of(d, parts.warps) <= std::min(most, fit) * runtime::processors();
}

/// Whether two warps that part the keys are faster than one that has all of them: where all blocks of threads
/// run at once, or, of codes under a causal mask, almost all, for such a call waits for its longest rows (16
/// x 1024 x 64 of uniform int8 on an H200: 17.6 instead of 19.0 us, 8 x 2048 27.0 instead of 33.5; of four
/// key blocks 13.4 instead of 11.9).
bool suits_parts(const AttentionDesc& d, const Cut& parts) {
  constexpr std::int64_t kLongRows = 8, kAlmostAll = 4;  // key blocks; blocks of threads a processor
  if (runs_at_once(d, parts)) return true;
  const bool rows_differ = d.mask == Mask::causal && d.tokens_k <= 2 * d.tokens_q;
  return rows_differ && fits(d, parts) && kernels_for(d, parts).k_bytes == 1 &&
         key_blocks_of(d) >= kLongRows && blocks_of(d, parts.warps) <= kAlmostAll * runtime::processors();
}

/// Whether the sequences are as long as each other, each row sees all keys of its own, and no bias is added.
bool sees_all_keys(const AttentionDesc& d) {
  return d.sequences == 0 && d.bias == AttentionDesc::Bias::none && d.mask == Mask::none &&
         d.window_left < 0 && d.window_right < 0;
}

/// Whether each row has so many key blocks: what tiles of lone blocks are for.
bool has_lone_blocks(const AttentionDesc& d, std::int32_t blocks) {
  return sees_all_keys(d) && key_blocks_of(d) == blocks;
}

/// Whether a tile that keeps keys holds those of a sequence.
bool may_keep_keys(const AttentionDesc& d, const mma::Tile& tile) {
  const std::int64_t blocks = key_blocks_of(d);
  return sees_all_keys(d) && blocks >= 1 && blocks <= mma::kept_blocks(tile, kernels_for(d, Cut{}).v_bytes);
}

/// The cut by the tile of the places of `usual` that keeps keys; tile -1: there is none, or a processor would
/// have fewer blocks of threads than of one that keeps none, as of four warps where it has 100 KiB of shared
/// memory. begin: as in mma::Turns.
Cut keeping_cut(const AttentionDesc& d, int usual, std::int32_t warps, double begin = mma::kBeginOfCopies) {
  constexpr std::int64_t kOfRegisters = 3;  // blocks of threads of a processor
  const mma::Kernels& kernels = kernels_for(d, Cut{});
  const int tile = mma::keeping_tile(usual, key_blocks_of(d), widest_block(d), kernels.v_bytes);
  Cut cut{tile, warps};
  if (tile < 0 || !may_keep_keys(d, mma::kTileTable[tile]) || !fits(d, cut)) return {-1};
  const std::int64_t fit = runtime::blocks_of(kernels.shared_bytes(tile, warps)),
                     fit_usual = runtime::blocks_of(kernels.shared_bytes(usual, warps));
  if (fit < std::min(fit_usual, kOfRegisters)) return {-1};
  cut.row_tiles = static_cast<std::int32_t>(mma::row_tiles_of_block(
      {d.batch * d.heads_q, groups_of_sequence(d.tokens_q, warps * mma::kRowsAWarp), key_blocks_of(d),
       std::min(fit, kOfRegisters), std::max<std::int64_t>(runtime::processors(), 1), begin}));
  return cut;
}

/// The cut for rows of one or two key blocks; tile -1: they are not, or the scheme has none. Two are computed
/// by two warps, or by one where all blocks of threads then run at once and those of two would not: 8 x 12 x
/// 197 x 64 15.0 us by two, 13.3 by one, 64 x 6 47.9 and 51.0 (H200).
Cut lone_cut(const AttentionDesc& d, const Cut& usual) {
  constexpr std::int32_t kFew = 2, kOfFew = 4, kOfMost = 3;  // blocks of threads that registers hold
  const std::int64_t all = runtime::processors();
  const auto blocks = static_cast<std::int32_t>(std::min<std::int64_t>(key_blocks_of(d), kFew));
  if (blocks < 1 || !has_lone_blocks(d, blocks)) return {-1};
  const auto tile = [&](std::int32_t parts) {
    return mma::lone_tile(usual.tile, blocks, parts, widest_block(d));
  };
  Cut cut{tile(blocks), blocks == 1 ? usual.warps : kFew};
  const Cut in_turn{blocks == 1 ? -1 : tile(1), mma::kMostWarps};
  if (in_turn.tile >= 0 && fits(d, in_turn) && blocks_of(d, cut.warps) > kOfFew * all &&
      blocks_of(d, in_turn.warps) <= kOfMost * all)
    cut = in_turn;
  if (cut.tile >= 0 && !fits(d, cut)) cut.tile = -1;
  return cut;
}

/// What a block of threads begins with that makes codes of all keys, as in mma::Turns; by parts in tiles of
/// rows against all of them.
constexpr double kBeginOfCodes = 3, kBeginByParts = 0.4;

/// The cut that parts the keys; tile -1: there is none. Of three key blocks there is no other. Of two it is
/// for calls of few heads, whose blocks of threads have a processor each: of four parts, or, as these are
/// more, of two: 3 x 197 x 64 9.5 us by rows, 7.5 and 6.5 by two and four parts, 8 x 3 10.1, 8.2 and 9.2; of
/// more it is for the same of four parts: 12 x 577 x 64 15.5 us in several launches, 12.9 so (H200).
Cut plain_parts(const AttentionDesc& d) {
  constexpr std::int32_t kTwo = 2, kFour = 4, kThreeBlocks = 3;
  const std::int64_t blocks = key_blocks_of(d), all = std::max<std::int64_t>(runtime::processors(), 1);
  const auto cut_of = [&](std::int32_t parts) {
    const int tile = mma::keeping_parts(mma::tile_for(plain::kDim, mma::kMostKeys), parts, blocks);
    return tile < 0 ? Cut{-1} : Cut{tile, plain::warps_by_parts(mma::kTileTable[tile]) / parts};
  };
  const auto fits = [&](const Cut& cut) {
    return cut.tile >= 0 && plain::shared_bytes(cut.tile, cut.warps) <= runtime::shared_bytes();
  };
  const auto suits = [&](const Cut& cut) { return fits(cut) && blocks_of(d, cut.warps) <= all; };
  if (!sees_all_keys(d) || blocks < kTwo) return {-1};
  Cut cut = cut_of(kTwo);
  if (blocks != kThreeBlocks) {
    // Of halves of key blocks there are three at least: no two warps that merge have none.
    const bool has_halves = d.key_block > mma::kMostKeys / 2;
    if (const Cut by_four = cut_of(kFour); has_halves && suits(by_four)) return by_four;
    return suits(cut) ? cut : Cut{-1};
  }
  if (!fits(cut)) return {-1};
  const std::int64_t at_once =
      std::min<std::int64_t>(runtime::blocks_of(plain::shared_bytes(cut.tile, cut.warps)),
                             plain::blocks_by_parts(mma::kTileTable[cut.tile]));
  cut.row_tiles = static_cast<std::int32_t>(mma::row_tiles_by_waves(
      {d.batch * d.heads_q, groups_of_sequence(d.tokens_q, cut.warps * mma::kRowsAWarp), blocks, at_once, all,
       kBeginByParts}));
  return cut;
}

}  // namespace

/// Keys that several heads share would be made codes of for each.
Cut plain_cut(const AttentionDesc& d) {
  constexpr Cut kNone{-1};
  const bool is_short = d.heads_q == d.heads_kv && d.head_dim == plain::kDim && d.head_dim_v == plain::kDim &&
                        d.key_block % plain::kRowsAtOnce == 0;
  const Form form = form_of(d, Family::mma, E4m3::as_it_is, PackedFor::this_call);
  if (!is_short || !plain::has_kernel(d.scheme, form)) return kNone;
  if (const Cut parts = plain_parts(d); parts.tile >= 0) return parts;
  return keeping_cut(d, mma::tile_for(plain::kDim, mma::kMostKeys), mma::kMostWarps, kBeginOfCodes);
}

/// The smallest tile that holds the problem, or one of its places that keeps the keys of several tiles of
/// rows (1024 x 6 x 197 x 64, int8: 362 instead of 479 us), or of one, which asks for no mask and no bias.
/// Warps of a block of threads share what they copy of K and V: as many as there may be, but two where a
/// processor then has up to three blocks of those, for the work is then shared out more evenly (8 x 6 x 197 x
/// 64 on an H200: 7.1 instead of 7.6 us), unless more warps leave half of the processors to the next call (4
/// x 12 x 49 x 32: 3.2 instead of 3.9 us); fewer where more do not fit the shared memory, or would have no
/// rows on a full card (`integer` of 32 x 32 over 8 x 1 of 4096 x 128: 354 us by one, 567 by four). Where a
/// row has several key blocks and the card has room, their keys are cut in parts, each with two warps, or
/// with one where the blocks of two would be one on some processors and two on others (8 x 3 x 197 x 64: 5.6
/// instead of 5.8 us). bench/cuda_tiles.cpp measures the others (docs/cuda-measurements.md).
Cut usual_cut(const AttentionDesc& d) {
  const Cut ranges = range_cut(d);
  const bool has_ranges = ranges.ranges > 0 && fits(d, ranges);
  if (const auto shared = shared_hopper_cut(d, has_ranges ? Otherwise::ranges : Otherwise::whole_rows))
    return *shared;
  if (has_ranges) return ranges;
  if (const Cut keeping = keeping_cut(d, tile_of(d), mma::kMostWarps);
      keeping.tile >= 0 && keeping.row_tiles > 1)
    return keeping;
  if (suits_hopper(d)) return usual_hopper_cut(d, tile_of(d), PackedFor::this_call);
  constexpr std::int32_t kFew = 2;
  constexpr std::int64_t kFewBlocks = 3;
  const std::int64_t all = runtime::processors();
  Cut cut{mma::narrowest_tile(tile_of(d), widest_block(d)), mma::kMostWarps};
  if (!fits(d, {cut.tile, 1})) cut.tile = tile_of(d);
  const bool short_of_half =
      key_blocks_of(d) <= 1 && 2 * blocks_of(d, kFew) > all && 2 * blocks_of(d, cut.warps) <= all;
  if (blocks_of(d, kFew) > kFewBlocks * all)
    cut.warps = warps_of_rows(tokens_of_sequence(d, d.tokens_q));
  else if (!short_of_half)
    cut.warps = kFew;
  while (cut.warps > 1 && !fits(d, cut)) cut.warps /= 2;
  if (const Cut lone = lone_cut(d, cut); lone.tile >= 0) return lone;
  Cut parts{mma::tile_like(cut.tile, 2, mma::kTileTable[cut.tile].computed), kFew};
  if (parts.tile < 0 || key_blocks_of(d) < 2 || !suits_parts(d, parts)) {
    const Cut keeping = keeping_cut(d, tile_of(d), cut.warps);
    return keeping.tile >= 0 && cut.warps > 1 ? keeping : cut;
  }
  const Cut single{parts.tile, 1};
  const bool is_uneven = blocks_of(d, kFew) > all && blocks_of(d, kFew) < 2 * all;
  return is_uneven && runs_at_once(d, single) ? single : parts;
}

namespace {

/// Tiles of rows that a block of threads may have where its tile keeps keys, more than one: powers of two,
/// and all of a sequence.
std::vector<std::int32_t> row_tiles_of(const AttentionDesc& d, const Cut& cut) {
  if (mma::kTileTable[cut.tile].kept_blocks == 0) return {};
  const std::int64_t all = groups_of_sequence(d.tokens_q, cut.warps * mma::kRowsAWarp);
  std::vector<std::int32_t> tiles;
  for (std::int64_t some = 2; some < all; some *= 2) tiles.push_back(static_cast<std::int32_t>(some));
  if (all > 1) tiles.push_back(static_cast<std::int32_t>(all));
  return tiles;
}

/// The tile that kept keys are packed for, whose kernels may have ranges.
int kept_tile(const AttentionDesc& d, std::int64_t capacity) {
  return mma::tile_of_ranges(tile_of(with_keys(d, capacity)));
}

}  // namespace

Cut kept_packing(const AttentionDesc& d, std::int64_t capacity) {
  Cut cut{kept_tile(d, capacity)};
  cut.packed_for = PackedFor::any_call;
  return cut;
}

/// The usual one where it reads what is packed for the keys.
Cut kept_cut(const AttentionDesc& d, std::int64_t capacity) {
  const Cut packing = kept_packing(d, capacity);
  Cut cut = usual_cut(d);
  cut.packed_for = PackedFor::any_call;
  if (cut.family == Family::wgmma && cut.tile == packing.tile &&
      hopper_kernels_for(d, cut.tile, PackedFor::any_call))
    return usual_hopper_cut(d, cut.tile, PackedFor::any_call);
  if (cut.family == Family::mma && mma::packed_tile(cut.tile) == packing.tile && fits(d, cut))
    return with_merging(d, cut);
  cut = packing;
  cut.warps = warps_of_rows(tokens_of_sequence(d, d.tokens_q));
  while (cut.warps > 1 && !fits(d, cut)) cut.warps /= 2;
  return cut;
}

std::string refusal(const AttentionDesc& d) {
  if (!mma::kernels_of(d.scheme, Form::general)) return "the mma kernels have no such scheme";
  if (std::string reason = runtime::refusal(); !reason.empty()) return reason;
  if (widest_dim(d, code_dim(d)) > mma::kMostDim)
    return "the mma kernels hold head dims up to " + std::to_string(mma::kMostDim) +
           " (rotation pads to a multiple of 16)";
  if (tile_of(d) < 0)
    return "key_block is " + std::to_string(d.key_block) + ", and the mma kernels hold key blocks up to " +
           std::to_string(mma::kMostKeys) + "; plan with that or less";
  const std::int64_t needed = kernels_for(d, Cut{}).shared_bytes(tile_of(d), 1);
  if (needed > runtime::shared_bytes())
    return "head dims up to " + std::to_string(mma::kTileTable[tile_of(d)].head_dim) + " need " +
           std::to_string(needed) + " bytes of shared memory a block, and the current device has " +
           std::to_string(runtime::shared_bytes());
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 29;  // sums of two numbers of tokens fit 31 bits
  if (d.tokens_q > kMostTokens || d.tokens_k > kMostTokens) return "the mma kernels count up to 2^29 tokens";
  return {};
}

std::string_view family_of(const AttentionDesc& d) {
  return usual_cut(d).family == Family::wgmma ? "wgmma" : "mma";
}

std::vector<Cut> cuts_of(const AttentionDesc& d) {
  std::vector<Cut> cuts{usual_cut(d)};
  for (std::int32_t tile = 0; tile < mma::kPackedTiles; ++tile) {
    if (tile < tile_of(d) || !hopper_kernels_for(d, tile)) continue;
    Cut cut = hopper_cut(d, tile);
    if (cut != cuts[0]) cuts.push_back(cut);
    for (const Cut& shared : shared_hopper_cuts(d, tile))
      if (shared != cuts[0]) cuts.push_back(shared);
  }
  const mma::Tile least = mma::kTileTable[tile_of(d)];
  for (const E4m3 e4m3 : {E4m3::as_it_is, E4m3::as_f16}) {
    if (e4m3 == E4m3::as_f16 && &kernels_for(d, {0, 1, Family::mma, e4m3}) == &kernels_for(d, Cut{}))
      continue;
    for (std::int32_t tile = 0; tile < mma::kTileCount; ++tile) {
      if (mma::kTileTable[tile].head_dim < least.head_dim || mma::kTileTable[tile].keys < least.keys ||
          mma::kTileTable[tile].computed < widest_block(d) ||
          (mma::kTileTable[tile].lone_blocks > 0 && !has_lone_blocks(d, mma::kTileTable[tile].lone_blocks)) ||
          (mma::kTileTable[tile].kept_blocks > 0 && !may_keep_keys(d, mma::kTileTable[tile])))
        continue;
      for (std::int32_t warps = mma::kMostWarps / mma::kTileTable[tile].key_parts; warps >= 1; warps /= 2) {
        Cut cut{tile, warps, Family::mma, e4m3};
        if (!fits(d, cut)) continue;
        if (cut != cuts[0]) cuts.push_back(cut);
        for (const std::int32_t row_tiles : row_tiles_of(d, cut)) {
          cut.row_tiles = row_tiles;
          if (cut != cuts[0]) cuts.push_back(cut);
        }
        cut.row_tiles = 1;
        for (const std::int32_t ranges : ranges_of(d, cut)) {
          cut.ranges = ranges;
          if (cut != cuts[0]) cuts.push_back(cut);
          Cut clusters = cut;
          clusters.merging = Merging::in_cluster;
          if (runs_clusters(d, clusters) && clusters != cuts[0]) cuts.push_back(clusters);
        }
      }
    }
  }
  return cuts;
}

}  // namespace octet::cuda
