#include "cuda/cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/try.h"
#include "cuda/attn/call.h"
#include "cuda/mma/launch.h"
#include "cuda/ranges.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/table.h"
#include "cuda/wgmma/fill.h"
#include "cuda/wgmma/launch.h"
#include "octet/dtype.hpp"
#include "quant/quantize.h"

namespace octet::cuda {
namespace {

constexpr std::int64_t kAlignment = 64;
std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::int64_t groups_of_sequence(std::int64_t tokens, std::int64_t size) { return (tokens + size - 1) / size; }

/// Groups of `size` tokens of all sequences, with room for a part of one in each (attn/sequence.cuh).
std::int64_t groups_of(const AttentionDesc& d, std::int64_t tokens, std::int64_t size) {
  if (d.sequences > 0) return tokens / size + d.sequences;
  return d.batch * groups_of_sequence(tokens, size);
}

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

int tile_of(const AttentionDesc& d) { return mma::tile_for(widest_dim(d, code_dim(d)), widest_block(d)); }

bool is_one_of(Granularity g, std::initializer_list<Granularity> list) {
  return std::ranges::find(list, g) != list.end();
}

/// The fastest form that the problem allows and the scheme has for a family of kernels. Hopper's read what
/// mma's pack.
Form form_of(const AttentionDesc& d, Family family, E4m3 e4m3) {
  using G = Granularity;
  const bool hopper = family == Family::wgmma;
  const auto has = [&](Form form) {
    const mma::Kernels* kernels = mma::kernels_of(d.scheme, form);
    if (!kernels || (hopper && !wgmma::kernels_of(d.scheme, form))) return false;
    return !kernels->multiplies_e4m3 || (e4m3 == E4m3::as_it_is && runtime::multiplies_e4m3());
  };
  if (d.bias == AttentionDesc::Bias::none && is_one_of(d.recipe.v, {G::tensor, G::head, G::channel})) {
    if (is_one_of(d.recipe.k, {G::tensor, G::head, G::block}) && has(Form::uniform)) return Form::uniform;
    if (hopper && has(Form::late)) return Form::late;
  }
  return has(Form::native) ? Form::native : Form::general;
}

/// The kernels of a problem's scheme in that form: those that pack, and attend if they are of mma.sync.
const mma::Kernels& kernels_for(const AttentionDesc& d, Family family, E4m3 e4m3) {
  return *mma::kernels_of(d.scheme, form_of(d, family, e4m3));
}
const mma::Kernels& kernels_for(const AttentionDesc& d, const Cut& cut) {
  return kernels_for(d, cut.family, cut.e4m3);
}

/// Hopper's kernels for a tile; null where there are none for it, for a bias, or the current device is no
/// Hopper.
const wgmma::Kernels* hopper_kernels_for(const AttentionDesc& d, int tile_index) {
  const mma::Tile tile = mma::kTileTable[tile_index];
  const int index = wgmma::tile_for(tile.head_dim, tile.keys);
  if (index < 0 || d.bias != AttentionDesc::Bias::none || !runtime::is_hopper()) return nullptr;
  return wgmma::kernels_of(d.scheme, form_of(d, Family::wgmma, E4m3::as_it_is));
}
/// Query rows of a block of threads of those.
std::int32_t hopper_rows(const AttentionDesc& d, int tile_index) {
  const mma::Tile tile = mma::kTileTable[tile_index];
  const int index = wgmma::tile_for(tile.head_dim, tile.keys);
  return hopper_kernels_for(d, tile_index)->warpgroups[index] * wgmma::kRowsAWarpgroup;
}

/// Where the parts of the packed keys lie in the workspace.
struct Layout {
  std::int64_t k = 0, v = 0, keys = 0, blocks = 0, channels = 0, table = 0, bytes = 0, blocks_per_head = 0;
};

Layout layout_of(const AttentionDesc& d, const Cut& cut) {
  const mma::Kernels& kernels = kernels_for(d, cut);
  const mma::Tile tile = mma::kTileTable[cut.tile];
  Layout at;
  at.blocks_per_head = groups_of(d, d.tokens_k, d.key_block);
  const std::int64_t blocks = d.heads_kv * at.blocks_per_head;
  const auto place = [&](std::int64_t bytes) {
    const std::int64_t offset = at.bytes;
    at.bytes += aligned(bytes);
    return offset;
  };
  at.k = place(blocks * tile.keys * tile.head_dim * kernels.k_bytes);
  at.v = place(blocks * tile.keys * tile.head_dim * kernels.v_bytes);
  at.keys = place(blocks * tile.keys * kernels.key_bytes);
  at.blocks = place(blocks * kernels.block_bytes);
  at.channels = place(blocks * tile.head_dim * kernels.channel_bytes);
  if (kernels.table_entries) at.table = place(kernels.table_entries(d.options) * std::int64_t{sizeof(float)});
  return at;
}

DeviceTensor device_tensor(const TensorView& x) {
  DeviceTensor t;
  t.data = x.data;
  t.dtype = x.dtype;
  for (int a = 0; a < 4; ++a) t.stride[a] = x.stride[static_cast<std::size_t>(a)];
  return t;
}

DeviceOperand device_operand(const QuantizedTensor& x) {
  DeviceOperand o;
  o.codes = device_tensor(x.codes);
  o.scales = device_tensor(x.scales);
  o.exponent = device_tensor(x.channel_exponent);
  o.dim = static_cast<std::int32_t>(x.codes.shape[3]);
  o.tokens_per_scale = Divider(x.tokens_per_scale);
  o.channels_per_scale = Divider(x.channels_per_scale);
  return o;
}

/// Whether rows of `dim` elements can be read and written 16 bytes at a time.
bool in_chunks(const TensorView& x, std::int64_t dim) {
  const std::int64_t bytes = dtype_bits(x.dtype) / 8;
  if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0 || x.stride[3] != 1) return false;
  for (std::size_t a = 0; a < 3; ++a)
    if (x.stride[a] * bytes % 16 != 0) return false;
  return dim * bytes % 16 == 0;
}

/// Whether rows of Q or K lie as kernels multiply them: the products' elements, 16 bytes a step.
bool as_multiplied(const TensorView& x, const mma::Kernels& kernels) {
  return x.dtype == kernels.k_dtype && in_chunks(x, x.shape[3]);
}
/// Whether kernels read K's rows as they are: those of a whole tile's channels.
bool reads_k(const TensorView& k, const mma::Kernels& kernels, const mma::Tile& tile) {
  return k.shape[3] == tile.head_dim && as_multiplied(k, kernels);
}

/// Key blocks of a row; of packed sequences, whose lengths the host does not see, were all as long.
std::int64_t key_blocks_of(const AttentionDesc& d) {
  const std::int64_t tokens = d.sequences > 0 ? d.tokens_k / d.sequences : d.tokens_k;
  return (tokens + d.key_block - 1) / d.key_block;
}

Call call_of(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  const mma::Kernels& kernels = kernels_for(d, cut);
  const mma::Tile tile = mma::kTileTable[cut.tile];
  const Layout at = layout_of(d, cut);
  auto* workspace = static_cast<std::byte*>(args.workspace);
  Call call;
  call.prepare.softmax_scale = d.softmax_scale;
  call.prepare.head_dim = static_cast<std::int32_t>(d.head_dim);
  call.prepare.key_block = static_cast<std::int32_t>(d.key_block);
  call.prepare.tokens_k = d.tokens_k;
  call.prepare.options = d.options;
  call.group = Divider(d.heads_q / d.heads_kv);
  call.dim_v = static_cast<std::int32_t>(d.head_dim_v);
  call.key_block = Divider(d.key_block);
  call.mask = d.mask;
  // A window as wide as all tokens hides nothing more than a wider one.
  const std::int64_t all = d.tokens_q + d.tokens_k;
  call.window_left = static_cast<std::int32_t>(std::min(d.window_left, all));
  call.window_right = static_cast<std::int32_t>(std::min(d.window_right, all));
  call.hides_keys = (d.mask != Mask::none || d.window_left >= 0 || d.window_right >= 0) ? 1 : 0;
  const auto count = static_cast<std::int32_t>(d.sequences > 0 ? d.sequences : d.batch);
  call.queries = {args.cu_seqlens_q, static_cast<std::int32_t>(d.tokens_q), count,
                  Divider(groups_of_sequence(d.tokens_q, cut.warps * mma::kRowsAWarp))};
  call.keys = {args.cu_seqlens_k, static_cast<std::int32_t>(d.tokens_k), count,
               Divider(groups_of_sequence(d.tokens_k, d.key_block))};
  call.q = device_operand(args.q), call.k = device_operand(args.k), call.v = device_operand(args.v);
  call.q_in_chunks = as_multiplied(args.q.codes, kernels);
  call.o_in_chunks = in_chunks(args.o, d.head_dim_v);
  call.wants_lse = args.lse.data, call.wants_o_scale = args.o_scale.data;
  call.tensor_scales[0] = args.q.scales.data && d.recipe.q == Granularity::tensor;
  call.tensor_scales[1] = args.k.scales.data && d.recipe.k == Granularity::tensor;
  call.tensor_scales[2] = args.v.scales.data && d.recipe.v == Granularity::tensor;
  call.is_placed_by_memory = args.cu_seqlens_q || args.cu_seqlens_k || call.tensor_scales[0] ||
                             call.tensor_scales[1] || call.tensor_scales[2];
  if (args.bias.data && d.bias != AttentionDesc::Bias::none) {
    call.bias_kind = d.bias;
    call.bias = device_tensor(args.bias);
    for (std::size_t a = 0; a < 4; ++a)
      if (args.bias.shape[a] == 1) call.bias.stride[a] = 0;
  }
  call.o = device_tensor(args.o), call.lse = device_tensor(args.lse);
  call.o_scale = device_tensor(args.o_scale), call.q_anchor = device_tensor(args.q_anchor);
  const std::int64_t k_bytes = dtype_bits(kernels.k_dtype) / 8;
  call.k_row_bytes = args.k.codes.stride[2] * k_bytes, call.k_block_bytes = d.key_block * call.k_row_bytes;
  if (!reads_k(args.k.codes, kernels, tile)) {
    call.packed.k = workspace + at.k;
    call.k_row_bytes = tile.head_dim * k_bytes, call.k_block_bytes = tile.keys * call.k_row_bytes;
  }
  call.packed.v = workspace + at.v;
  call.packed.keys = workspace + at.keys;
  call.packed.blocks = workspace + at.blocks;
  const bool in_p = kernels.carries_v && args.v.channels_per_scale == 0;
  if (args.v.scales.data && args.v.tokens_per_scale > 0 && !in_p)
    call.packed.channels = workspace + at.channels;
  if (kernels.table_entries) call.packed.table = reinterpret_cast<float*>(workspace + at.table);
  call.prepare.table = call.packed.table;
  call.packed.blocks_per_head = static_cast<std::int32_t>(at.blocks_per_head);
  return call;
}

Status launched(int error, const char* what) {
  if (error == cudaSuccess) return {};
  return {Code::internal, std::string("the CUDA ") + what + " kernel was not launched: " +
                              cudaGetErrorString(static_cast<cudaError_t>(error))};
}

/// Blocks of threads of a call.
std::int64_t blocks_of(const AttentionDesc& d, std::int32_t warps) {
  return groups_of(d, d.tokens_q, warps * mma::kRowsAWarp) * d.heads_q;
}

mma::Grid grid_of(const AttentionDesc& d, const Cut& cut) {
  mma::Grid grid;
  grid.warps = cut.warps;
  grid.groups = static_cast<std::int32_t>(groups_of(d, d.tokens_q, grid.warps * mma::kRowsAWarp));
  grid.heads = static_cast<std::int32_t>(d.heads_q);
  grid.shared_bytes = kernels_for(d, cut).shared_bytes(cut.tile, cut.warps);
  // Where a row has several key blocks a processor is kept from having more blocks of threads than it must:
  // others would have less, and with the next call's beside them the more (docs/cuda-measurements.md).
  const std::int64_t all = std::max<std::int64_t>(runtime::processors(), 1);
  const std::int64_t even = (blocks_of(d, cut.warps) + all - 1) / all;
  if (key_blocks_of(d) > 1) grid.shared_bytes = std::max(grid.shared_bytes, runtime::bytes_of_blocks(even));
  return grid;
}

bool fits(const AttentionDesc& d, const Cut& cut) {
  const std::int64_t bytes = kernels_for(d, cut).shared_bytes(cut.tile, cut.warps);
  return bytes > 0 && bytes <= runtime::shared_bytes();
}

/// Early where the next call's blocks of threads find half of the processors free, or each processor has
/// several of this one's; between the two they would be dealt out unevenly, which calls of one key block are
/// too short to feel (docs/cuda-measurements.md).
NextStarts next_starts(const AttentionDesc& d, const Cut& cut) {
  const std::int64_t blocks = blocks_of(d, cut.warps), all = runtime::processors();
  const std::int64_t several = key_blocks_of(d) > 1 ? 2 : 1;
  return 2 * blocks <= all || blocks >= several * all ? NextStarts::early : NextStarts::late;
}

/// Whether all blocks of threads of a cut that parts the keys run at once, `most` a processor. Each part has
/// one buffer, into which its next key block is not copied ahead: where there are many, fewer may share a
/// processor.
bool runs_at_once(const AttentionDesc& d, const Cut& parts) {
  constexpr std::int64_t kOfTwoBlocks = 3, kOfMany = 2;  // that registers hold; that were measured
  const std::int64_t most = key_blocks_of(d) > mma::kTileTable[parts.tile].key_parts ? kOfMany : kOfTwoBlocks;
  const std::int64_t fit = runtime::blocks_of(kernels_for(d, parts).shared_bytes(parts.tile, parts.warps));
  return fits(d, parts) && blocks_of(d, parts.warps) <= std::min(most, fit) * runtime::processors();
}

/// Blocks of threads of a call's rows, as many rows as `warps` warps have in each, whose keys are not cut.
/// joined: query heads that are computed together.
std::int64_t row_tiles_of(const AttentionDesc& d, std::int64_t joined, std::int32_t warps) {
  const std::int64_t sequences = d.sequences > 0 ? d.sequences : d.batch;
  return groups_of_sequence(tokens_of_sequence(d, d.tokens_q) * joined, warps * mma::kRowsAWarp) *
         (d.heads_q / joined) * sequences;
}
/// Warps of a block of threads that have so many rows of a head.
std::int32_t warps_of_rows(std::int64_t rows) {
  std::int32_t warps = 1;
  while (warps < mma::kMostWarps && rows > warps * mma::kRowsAWarp) warps *= 2;
  return warps;
}
std::int32_t warps_of_ranges(const AttentionDesc& d) {
  return warps_of_rows(tokens_of_sequence(d, d.tokens_q) * RangeCut(d, 1).joined);
}
/// Ranges of a sequence of average length that give each of `all` processors so many blocks of threads, as
/// long as each other. A range has two key blocks or more, and of tiles of many rows one for each warp, for
/// else its outputs would be as much as its keys.
std::int64_t even_ranges(const AttentionDesc& d, std::int32_t warps, std::int64_t of_processor,
                         std::int64_t all) {
  constexpr std::int64_t kLeast = 2;
  const std::int64_t blocks = seen_blocks(d), least = std::max<std::int64_t>(kLeast, warps);
  const std::int64_t tiles = row_tiles_of(d, RangeCut(d, 1).joined, warps);
  const std::int64_t ranges = std::max<std::int64_t>(std::min(of_processor * all / tiles, blocks / least), 1);
  return groups_of_sequence(blocks, groups_of_sequence(blocks, ranges));
}
/// Ranges of the keys of a call that takes ranges by itself, 0 elsewhere. Where the tiles of all rows leave
/// half of `all` processors free, so many as give each two blocks of threads, of one warp and up to 64
/// channels four (docs/cuda-measurements.md); kMostRows: of f32 outputs, 16 MiB at 256 channels. Less than
/// kLeast are not worth merging, unless heads are joined for them, which more calls are where it leaves half
/// of the tiles or less; packed ones, for their longest sequences, wherever a row tile has all of one's rows,
/// with up to kLongest times kMostRows of outputs.
std::int32_t usual_ranges(const AttentionDesc& d, std::int64_t all) {
  constexpr std::int64_t kMostRows = 16384, kOfProcessor = 2, kOfNarrow = 4, kLeastKeys = 1024, kLeast = 4;
  if (!may_have_ranges(d) || !kernels_for(d, Cut{}).merges_ranges) return 0;
  if (seen_blocks(d) * d.key_block < kLeastKeys) return 0;
  const RangeCut cut(d, 1);
  const std::int32_t warps = warps_of_ranges(d);
  const std::int64_t tiles = row_tiles_of(d, cut.joined, warps),
                     sequences = std::max<std::int64_t>(d.sequences, 1);
  const bool are_few = 2 * tiles <= all;
  const bool have_one_tile = cut.rows() <= mma::kMostWarps * mma::kRowsAWarp * sequences;
  const bool saves = have_one_tile && (d.sequences > 0 || 2 * tiles <= row_tiles_of(d, 1, warps));
  if (!are_few && !saves) return 0;
  const bool narrow = warps == 1 && mma::kTileTable[tile_of(d)].head_dim <= 64;
  const std::int64_t rows = cut.batches * cut.heads * cut.rows();
  const std::int64_t ranges = std::max<std::int64_t>(
      std::min(even_ranges(d, warps, narrow ? kOfNarrow : kOfProcessor, all), kMostRows / rows), 1);
  if (ranges < kLeast && !saves) return 0;
  if (d.sequences == 0) return static_cast<std::int32_t>(ranges);
  const std::int64_t most =
      std::clamp<std::int64_t>(RangeCut::kLongest * kMostRows / rows, 1, RangeCut::kLongest * ranges);
  return most > 1 || cut.joined > 1 ? static_cast<std::int32_t>(most) : 0;
}

/// Whether each row has so many key blocks and sees all their keys, and no bias is added: what tiles of lone
/// blocks are for.
bool has_lone_blocks(const AttentionDesc& d, std::int32_t blocks) {
  return d.sequences == 0 && d.bias == AttentionDesc::Bias::none && d.mask == Mask::none &&
         d.window_left < 0 && d.window_right < 0 && key_blocks_of(d) == blocks;
}

/// Hopper's own kernels have one block of threads a processor, and take a while to begin: a call is for them
/// where it keeps most processors busy to its end, and its rows have many keys. Up to 64 channels mma.sync is
/// not as far behind, least of all where keys share their scales and it has the products. Rows of fewer keys
/// are for them where they fill their tiles (wgmma/fill.h).
bool suits_hopper(const AttentionDesc& d) {
  const int tile = tile_of(d);
  if (!hopper_kernels_for(d, tile)) return false;
  const bool narrow = mma::kTileTable[tile].head_dim <= 64;
  const Form form = form_of(d, Family::mma, E4m3::as_it_is);
  const mma::Kernels& kernels = kernels_for(d, Cut{});
  const bool uniform = form == Form::uniform && !kernels.multiplies_e4m3;
  // Measured: of 512 keys uniform int8 and int4 are faster by mma.sync unless tiles are full, or always.
  const bool takes_more = narrow && (uniform || d.scheme == Scheme::int4);
  constexpr std::int64_t kMany = 512, kMore = 1024;
  const std::int64_t least_percent = narrow ? 70 : 50;
  const std::int64_t all = std::max<std::int64_t>(runtime::processors(), 1), rows = hopper_rows(d, tile);
  const std::int64_t tiles = groups_of(d, d.tokens_q, rows) * d.heads_q;
  const std::int64_t at_once = (tiles + all - 1) / all * all;  // of as many turns
  // Rows of one warp, of bytes: a card full of mma.sync's blocks of threads reads keys faster (32 x 32 x 1 of
  // 4096 x 128, int8 on an H200: 321 instead of 403 us; f16 584 and 562).
  constexpr std::int64_t kFull = 3, kWidest = 128;
  if (tokens_of_sequence(d, d.tokens_q) <= mma::kRowsAWarp && tiles > kFull * all &&
      mma::kTileTable[tile].head_dim <= kWidest && kernels.k_dtype == DType::s8 && kernels.v_bytes == 1)
    return false;
  const std::int64_t keys = key_blocks_of(d) * d.key_block;
  if (keys >= (takes_more ? kMore : kMany) && 100 * tiles >= least_percent * at_once) return true;
  if (narrow && uniform && keys < kMany) return false;
  const std::int64_t rows_of_call = d.tokens_q * (d.sequences > 0 ? 1 : d.batch) * d.heads_q;
  const int index = wgmma::tile_for(mma::kTileTable[tile].head_dim, mma::kTileTable[tile].keys);
  return 100 * rows_of_call >= wgmma::least_fill(d.scheme, form, index, key_blocks_of(d)) * at_once * rows;
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

Cut hopper_cut(const AttentionDesc& d, int tile_index) {
  return {tile_index, hopper_rows(d, tile_index) / mma::kRowsAWarp, Family::wgmma};
}

/// The cut in ranges of a call that takes these; ranges 0: it does not. Of wide rows of bytes all warps that
/// there may be copy keys, whether they have rows or not (32 over 8 x 1 of 4096 x 128, int8 on an H200: 11.8
/// us instead of 12.4, batch 32 of it 78 instead of 88; f16 19.6 instead of 14.3, for less blocks of threads
/// fit).
Cut range_cut(const AttentionDesc& d) {
  Cut cut{mma::tile_of_ranges(tile_of(d)), warps_of_ranges(d)};
  cut.ranges = usual_ranges(d, runtime::processors());
  if (mma::kTileTable[cut.tile].head_dim > 64 && kernels_for(d, cut).k_bytes == 1)
    cut.warps = mma::kMostWarps;
  while (cut.warps > 1 && !fits(d, cut)) cut.warps /= 2;
  const Cut parts{mma::tile_like(cut.tile, 2, mma::kTileTable[cut.tile].computed), 1};
  if (cut.warps == 1 && parts.tile >= 0 && fits(d, parts)) cut.tile = parts.tile;
  return cut;
}

/// The smallest tile that holds the problem, where the scheme has one with places left out. Warps of a block
/// of threads share what they copy of K and V: as many as there may be, but two where a processor then has up
/// to three blocks of those, for the work is then shared out more evenly (8 x 6 x 197 x 64 on an H200: 7.1
/// instead of 7.6 us), unless more warps leave half of the processors to the next call (4 x 12 x 49 x 32: 3.2
/// instead of 3.9 us); fewer where more do not fit the shared memory, or would have no rows on a full card
/// (`integer` of 32 x 32 over 8 x 1 of 4096 x 128: 354 us by one, 567 by four). Where a row has several key
/// blocks and the card has room, their keys are cut in parts, each with two warps, or with one where the
/// blocks of two would be one on some processors and two on others (8 x 3 x 197 x 64: 5.6 instead of 5.8 us).
/// bench/cuda_tiles.cpp measures the others (docs/cuda-measurements.md).
Cut usual_cut(const AttentionDesc& d) {
  if (const Cut ranges = range_cut(d); ranges.ranges > 0 && fits(d, ranges)) return ranges;
  if (suits_hopper(d)) return hopper_cut(d, tile_of(d));
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
  if (parts.tile < 0 || key_blocks_of(d) < 2 || !runs_at_once(d, parts)) return cut;
  const Cut single{parts.tile, 1};
  const bool is_uneven = blocks_of(d, kFew) > all && blocks_of(d, kFew) < 2 * all;
  return is_uneven && runs_at_once(d, single) ? single : parts;
}

/// Ranges that a cut may have: that give each processor one block of threads to four.
std::vector<std::int32_t> ranges_of(const AttentionDesc& d, const Cut& cut) {
  constexpr std::int64_t kMost = 4;  // blocks of threads a processor
  const mma::Tile tile = mma::kTileTable[cut.tile];
  const mma::Tile least = mma::kTileTable[mma::tile_of_ranges(tile_of(d))];
  if (!may_have_ranges(d) || !kernels_for(d, cut).merges_ranges || !mma::may_have_ranges(tile) ||
      tile.head_dim != least.head_dim)
    return {};
  std::vector<std::int32_t> ranges;
  for (std::int64_t some = 1; some <= kMost; ++some)
    ranges.push_back(static_cast<std::int32_t>(even_ranges(d, cut.warps, some, runtime::processors())));
  ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  return ranges;
}

}  // namespace

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
    const Cut cut = hopper_cut(d, tile);
    if (cut != cuts[0]) cuts.push_back(cut);
  }
  const mma::Tile least = mma::kTileTable[tile_of(d)];
  for (const E4m3 e4m3 : {E4m3::as_it_is, E4m3::as_f16}) {
    if (e4m3 == E4m3::as_f16 && &kernels_for(d, Family::mma, e4m3) == &kernels_for(d, Cut{})) continue;
    for (std::int32_t tile = 0; tile < mma::kTileCount; ++tile) {
      if (mma::kTileTable[tile].head_dim < least.head_dim || mma::kTileTable[tile].keys < least.keys ||
          mma::kTileTable[tile].computed < widest_block(d) ||
          (mma::kTileTable[tile].lone_blocks > 0 && !has_lone_blocks(d, mma::kTileTable[tile].lone_blocks)))
        continue;
      for (std::int32_t warps = mma::kMostWarps / mma::kTileTable[tile].key_parts; warps >= 1; warps /= 2) {
        Cut cut{tile, warps, Family::mma, e4m3};
        if (!fits(d, cut)) continue;
        if (cut != cuts[0]) cuts.push_back(cut);
        for (const std::int32_t ranges : ranges_of(d, cut)) {
          cut.ranges = ranges;
          if (cut != cuts[0]) cuts.push_back(cut);
        }
      }
    }
  }
  return cuts;
}

std::int64_t workspace_bytes(const AttentionDesc& d, const Cut& cut) {
  const std::int64_t of_ranges = cut.ranges > 0 ? RangeCut(d, cut.ranges).bytes() : 0;
  return layout_of(d, cut).bytes + of_ranges;
}
/// Enough for either family, products and ranges: a plan may be run on another device than the one that was
/// current when it was made.
std::int64_t workspace_bytes(const AttentionDesc& d) {
  constexpr std::int64_t kMany = 1 << 20;  // processors
  const std::int32_t tile = tile_of(d), of_ranges = mma::tile_of_ranges(tile),
                     ranges = usual_ranges(d, kMany);
  return std::max({workspace_bytes(d, {tile, 1, Family::mma, E4m3::as_it_is}),
                   workspace_bytes(d, {tile, 1, Family::mma, E4m3::as_f16}),
                   workspace_bytes(d, {of_ranges, 1, Family::mma, E4m3::as_it_is, ranges}),
                   workspace_bytes(d, {of_ranges, 1, Family::mma, E4m3::as_f16, ranges}),
                   workspace_bytes(d, {tile, 1, Family::wgmma})});
}

Status pack(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  const mma::Kernels& kernels = kernels_for(d, cut);
  const Call call = call_of(d, args, cut);
  if (kernels.table_entries) {
    std::vector<float> table(static_cast<std::size_t>(kernels.table_entries(d.options)));
    kernels.fill_table(d.options, table.data());
    OCTET_TRY(launched(runtime::put_table(table, call.packed.table, args.stream), "table"));
  }
  if (d.tokens_k == 0) return {};
  const mma::Grid grid{call.packed.blocks_per_head, static_cast<std::int32_t>(d.heads_kv)};
  return launched(kernels.pack(call, mma::packed_tile(cut.tile), grid, args.stream), "packing");
}
Status pack(const AttentionDesc& d, const AttentionArgs& args) { return pack(d, args, usual_cut(d)); }

namespace {

Status attend_ranges(const AttentionDesc& d, const Call& call, const Cut& cut, const AttentionArgs& args) {
  const RangeCut ranges(d, cut.ranges);
  const mma::Kernels& kernels = kernels_for(d, cut);
  std::byte* const parts = static_cast<std::byte*>(args.workspace) + layout_of(d, cut).bytes;
  const std::int64_t rows_a_tile = cut.warps * mma::kRowsAWarp;
  Call of_ranges = call_of_ranges(call, ranges, rows_a_tile, parts);
  of_ranges.next_starts = NextStarts::early;
  mma::Grid grid;
  grid.warps = cut.warps;
  grid.groups =
      static_cast<std::int32_t>(d.sequences > 0 ? ranges.rows() / rows_a_tile + d.sequences
                                                : d.batch * groups_of_sequence(ranges.rows(), rows_a_tile));
  grid.ranges = ranges.most;
  grid.heads = static_cast<std::int32_t>(ranges.heads);
  grid.shared_bytes = kernels.shared_bytes(cut.tile, cut.warps);
  OCTET_TRY(launched(kernels.attend(of_ranges, cut.tile, grid, args.stream), "attention"));
  return launched(merge_ranges(call, ranges, parts, args.stream), "merging");
}

}  // namespace

Status attend_packed(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  Call call = call_of(d, args, cut);
  if (cut.ranges > 0) return attend_ranges(d, call, cut, args);
  if (cut.family == Family::wgmma) {
    const int tile = wgmma::tile_for(mma::kTileTable[cut.tile].head_dim, mma::kTileTable[cut.tile].keys);
    const std::int64_t groups = groups_of(d, d.tokens_q, hopper_rows(d, cut.tile));
    return launched(hopper_kernels_for(d, cut.tile)
                        ->attend(call, tile, static_cast<std::int32_t>(groups),
                                 static_cast<std::int32_t>(d.heads_q), args.stream),
                    "attention");
  }
  const mma::Grid grid = grid_of(d, cut);
  call.next_starts = next_starts(d, cut);
  return launched(kernels_for(d, cut).attend(call, cut.tile, grid, args.stream), "attention");
}
Status attend_packed(const AttentionDesc& d, const AttentionArgs& args) {
  return attend_packed(d, args, usual_cut(d));
}

Status attend(const AttentionDesc& d, const AttentionArgs& args) {
  OCTET_TRY(pack(d, args));
  return attend_packed(d, args);
}

}  // namespace octet::cuda
