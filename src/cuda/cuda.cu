#include "cuda/cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/try.h"
#include "core/schemes.h"
#include "cuda/attn/call.h"
#include "cuda/cuts.h"
#include "cuda/hopper_cuts.h"
#include "cuda/plain/launch.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/range_cuts.h"
#include "cuda/ranges.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/table.h"
#include "cuda/window/launch.cuh"
#include "octet/dtype.hpp"

namespace octet::cuda {
namespace {

constexpr std::int64_t kAlignment = 64;
std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Where the parts of the packed keys lie, K behind all others. Kernels may read K and V where they are, and
/// the places of both then stay empty.
struct Layout {
  std::int64_t v = 0, keys = 0, blocks = 0, channels = 0, table = 0, k = 0, bytes = 0, blocks_per_head = 0;
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
  at.v = place(blocks * tile.keys * tile.head_dim * kernels.v_bytes);
  at.keys = place(blocks * tile.keys * kernels.key_bytes);
  at.blocks = place(blocks * kernels.block_bytes);
  at.channels = place(blocks * tile.head_dim * kernels.channel_bytes);
  if (kernels.table_entries) at.table = place(kernels.table_entries(d.options) * std::int64_t{sizeof(float)});
  at.k = place(blocks * tile.keys * tile.head_dim * kernels.k_bytes);
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

/// Whether kernels read V's rows as they are, of which the same holds.
bool reads_v(const TensorView& v, const mma::Kernels& kernels, const mma::Tile& tile) {
  return kernels.reads_rows_of_v && v.dtype == kernels.v_dtype && v.shape[3] == tile.head_dim &&
         in_chunks(v, v.shape[3]);
}

/// A call whose packed keys begin at kept.packed.
Call call_of(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut, const KeptKeys& kept) {
  const mma::Kernels& kernels = kernels_for(d, cut);
  const mma::Tile tile = mma::kTileTable[cut.tile];
  const Layout at = layout_of(with_keys(d, kept.capacity), cut);
  std::byte* const packed = kept.packed;
  Call call;
  call.prepare.softmax_scale = d.softmax_scale;
  call.prepare.head_dim = static_cast<std::int32_t>(d.head_dim);
  call.prepare.key_block = static_cast<std::int32_t>(d.key_block);
  call.prepare.tokens_k = d.tokens_k;
  call.prepare.options = d.options;
  call.row_tiles = cut.row_tiles;
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
                  Divider(groups_of_sequence(d.tokens_q, cut.row_tiles * cut.warps * mma::kRowsAWarp))};
  call.keys = {args.cu_seqlens_k, static_cast<std::int32_t>(d.tokens_k), count,
               Divider(groups_of_sequence(kept.capacity, d.key_block))};
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
    call.packed.k = packed + at.k;
    call.k_row_bytes = tile.head_dim * k_bytes, call.k_block_bytes = tile.keys * call.k_row_bytes;
  }
  call.packed.v = packed + at.v;
  call.v_row_bytes = tile.head_dim * kernels.v_bytes, call.v_block_bytes = tile.keys * call.v_row_bytes;
  call.has_packed_v = args.v.codes.data == call.packed.v;
  call.packed.keys = packed + at.keys;
  call.packed.blocks = packed + at.blocks;
  const bool in_p = kernels.carries_v && args.v.channels_per_scale == 0;
  if (args.v.scales.data && args.v.tokens_per_scale > 0 && !in_p) call.packed.channels = packed + at.channels;
  if (kernels.table_entries) call.packed.table = reinterpret_cast<float*>(packed + at.table);
  call.prepare.table = call.packed.table;
  call.packed.blocks_per_head = static_cast<std::int32_t>(at.blocks_per_head);
  return call;
}
/// A call whose keys are packed in its workspace, or read where they are.
Call call_of(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  Call call = call_of(d, args, cut, {static_cast<std::byte*>(args.workspace), d.tokens_k});
  const mma::Kernels& kernels = kernels_for(d, cut);
  if (!reads_v(args.v.codes, kernels, mma::kTileTable[cut.tile])) return call;
  call.packed.v = nullptr;
  call.v_row_bytes = args.v.codes.stride[2] * kernels.v_bytes;
  call.v_block_bytes = d.key_block * call.v_row_bytes;
  return call;
}

/// Whether there is something to pack: V or K, or constants.
bool packs(const Call& call, const mma::Kernels& kernels) {
  return call.packed.v || call.packed.k || call.packed.channels || kernels.key_bytes > 0 ||
         kernels.block_bytes > 0;
}

Status launched(int error, const char* what) {
  if (error == cudaSuccess) return {};
  return {Code::internal, std::string("the CUDA ") + what + " kernel was not launched: " +
                              cudaGetErrorString(static_cast<cudaError_t>(error))};
}

/// shared_bytes: of a block of threads.
mma::Grid grid_of(const AttentionDesc& d, const Cut& cut, std::int64_t shared_bytes) {
  mma::Grid grid;
  grid.warps = cut.warps;
  grid.groups =
      static_cast<std::int32_t>(groups_of(d, d.tokens_q, cut.row_tiles * grid.warps * mma::kRowsAWarp));
  grid.heads = static_cast<std::int32_t>(d.heads_q);
  grid.shared_bytes = shared_bytes;
  // Where a row has several key blocks a processor is kept from having more blocks of threads than it must:
  // others would have less, and with the next call's beside them the more (docs/cuda-measurements.md).
  const std::int64_t all = std::max<std::int64_t>(runtime::processors(), 1);
  const std::int64_t even = (blocks_of(d, cut.row_tiles * cut.warps) + all - 1) / all;
  if (key_blocks_of(d) > 1) grid.shared_bytes = std::max(grid.shared_bytes, runtime::bytes_of_blocks(even));
  return grid;
}

/// Early where the next call's blocks of threads find half of the processors free, or each processor has
/// several of this one's; between the two they would be dealt out unevenly, which calls of one key block are
/// too short to feel (docs/cuda-measurements.md).
NextStarts next_starts(const AttentionDesc& d, const Cut& cut) {
  const std::int64_t blocks = blocks_of(d, cut.row_tiles * cut.warps), all = runtime::processors();
  const std::int64_t several = key_blocks_of(d) > 1 ? 2 : 1;
  return 2 * blocks <= all || blocks >= several * all ? NextStarts::early : NextStarts::late;
}

}  // namespace

std::int64_t workspace_bytes(const AttentionDesc& d, const Cut& cut) {
  const std::int64_t of_ranges = cut.ranges > 0 ? RangeCut(d, cut).bytes() : 0;
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
                   workspace_bytes(d, {tile, 1, Family::wgmma}) + hopper_range_bytes(d)});
}

namespace {

Status put_table(const AttentionDesc& d, const mma::Kernels& kernels, const Call& call, void* stream) {
  if (!kernels.table_entries) return {};
  std::vector<float> table(static_cast<std::size_t>(kernels.table_entries(d.options)));
  kernels.fill_table(d.options, table.data());
  return launched(runtime::put_table(table, call.packed.table, stream), "table");
}

/// Key blocks of all sequences and heads, or so many of each sequence as the call has a part of.
Status pack_blocks(const AttentionDesc& d, const Call& call, const Cut& cut, std::int64_t blocks,
                   void* stream) {
  const mma::Grid grid{static_cast<std::int32_t>(blocks), static_cast<std::int32_t>(d.heads_kv)};
  return launched(kernels_for(d, cut).pack(call, mma::packed_tile(cut.tile), grid, stream), "packing");
}

/// parts: RangeCut::bytes() for what ranges leave.
Status attend_ranges(const AttentionDesc& d, const Call& call, const Cut& cut, std::byte* parts,
                     void* stream) {
  const RangeCut ranges(d, cut);
  const mma::Kernels& kernels = kernels_for(d, cut);
  const std::int64_t rows_a_tile = cut.warps * mma::kRowsAWarp;
  Call of_ranges = call_of_ranges(call, ranges, rows_a_tile);
  of_ranges.next_starts = NextStarts::early;
  mma::Grid grid;
  grid.warps = cut.warps;
  grid.groups =
      static_cast<std::int32_t>(d.sequences > 0 ? ranges.rows() / rows_a_tile + d.sequences
                                                : d.batch * groups_of_sequence(ranges.rows(), rows_a_tile));
  grid.ranges = ranges.most;
  grid.heads = static_cast<std::int32_t>(ranges.heads);
  grid.shared_bytes = kernels.shared_bytes(cut.tile, cut.warps);
  if (cut.merging == Merging::in_cluster) {
    of_ranges.ranges.are_cluster = grid.ranges_are_cluster = true;
    return launched(kernels.attend(of_ranges, cut.tile, grid, stream), "attention");
  }
  of_ranges = into_parts(of_ranges, ranges, parts);
  OCTET_TRY(launched(kernels.attend(of_ranges, cut.tile, grid, stream), "attention"));
  return launched(merge_ranges(call, ranges, parts, stream), "merging");
}

/// Heads without ranges, then those with, which begin as the others leave processors free.
Status attend_by_hopper(const AttentionDesc& d, Call call, const Cut& cut, std::byte* parts, void* stream) {
  const wgmma::Kernels& kernels = *hopper_kernels_for(d, cut.tile, cut.packed_for);
  const int tile = wgmma::tile_for(mma::kTileTable[cut.tile].head_dim, mma::kTileTable[cut.tile].keys);
  const bool is_packed = d.sequences > 0, have_all_small = cut.last_rows > 0 && cut.last_heads == 0;
  const std::int64_t rows = have_all_small ? cut.last_rows : hopper_rows(d, cut.tile, cut.packed_for);
  wgmma::Grid grid{{d.heads_q, 0, d.heads_q * (is_packed ? 1 : d.batch), rows},
                   is_packed ? groups_of(d, d.tokens_q, rows) : groups_of_sequence(d.tokens_q, rows)};
  if (cut.ranges == 0) {
    if (!have_all_small) grid.with_small = cut.last_heads, grid.query_rows_of_small = cut.last_rows;
    return launched(kernels.attend(call, tile, grid, stream), "attention");
  }
  const RangeCut ranges(d, cut);
  Call of_ranges = into_parts(call_of_ranges(call, ranges, rows), ranges, parts);
  of_ranges.next_starts = NextStarts::early;
  grid.rows.count = ranges.first_head;
  if (grid.rows.count > 0) {
    call.next_starts = NextStarts::early, of_ranges.begins = Begins::beside_own;
    OCTET_TRY(launched(kernels.attend(call, tile, grid, stream), "attention"));
  }
  grid.rows.first = ranges.first_head, grid.rows.count = ranges.count;
  OCTET_TRY(launched(kernels.attend(of_ranges, tile, grid, stream), "attention"));
  return launched(merge_ranges(call, ranges, parts, stream), "merging");
}

Status attend_packed_keys(const AttentionDesc& d, Call call, const Cut& cut, std::byte* parts, void* stream) {
  if (cut.family == Family::wgmma) return attend_by_hopper(d, call, cut, parts, stream);
  if (cut.ranges > 0) return attend_ranges(d, call, cut, parts, stream);
  const mma::Kernels& kernels = kernels_for(d, cut);
  const mma::Grid grid = grid_of(d, cut, kernels.shared_bytes(cut.tile, cut.warps));
  call.next_starts = next_starts(d, cut);
  return launched(kernels.attend(call, cut.tile, grid, stream), "attention");
}

}  // namespace

namespace {

/// K, V and Q as kernels take them that do all of a call; false: they do not.
Result<bool> as_plain(const AttentionDesc& d, const AttentionArgs& args,
                      std::span<const PlainOperand> operands, std::array<ShortOperand, 3>& plain) {
  const bool makes_v = operands.size() == plain.size();
  if (!makes_v) plain[1].rows = reading_of(args.v.codes, {d.batch, d.tokens_k, nullptr}, d.head_dim_v);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Result<bool> is_short = as_short_operand(operands[i], plain[makes_v ? i : 2 * i]);
    if (!is_short.ok() || !is_short.value()) return is_short;
  }
  return true;
}

/// A window is a key block, all of whose codes have scales of their tokens or of the whole block, and a tile
/// of rows. Keys that several heads share would be made codes of for each.
bool is_window(const AttentionDesc& d, const Cut& cut) {
  const mma::Tile& tile = mma::kTileTable[cut.tile];
  return d.sequences == 0 && tile.head_dim == window::kChannels && tile.keys == window::kTokens &&
         d.tokens_q <= window::kTokens && key_blocks_of(d) == 1 && d.heads_q == d.heads_kv;
}

}  // namespace

Result<bool> attend_plain(const AttentionDesc& d, const AttentionArgs& args,
                          std::span<const PlainOperand> operands) {
  const Cut of_window{tile_of(d), mma::kMostWarps};
  const bool takes_window = is_window(d, of_window);
  const Cut cut = takes_window ? of_window : plain_cut(d);
  if (cut.tile < 0) return false;
  std::array<ShortOperand, 3> plain;
  const Result<bool> are_plain = as_plain(d, args, operands, plain);
  if (!are_plain.ok() || !are_plain.value()) return are_plain;
  Call call = call_of(d, args, cut);
  if (call.packed.channels || call.is_placed_by_memory) return false;
  int error = cudaSuccess;
  bool is_launched = false;
  if (takes_window) {
    const window::Asked asked{d.scheme, form_of(d, cut.family, cut.e4m3, cut.packed_for),
                              static_cast<std::int32_t>(d.batch), static_cast<std::int32_t>(d.heads_q)};
    is_launched = window::launch(asked, call, plain, args.stream, error);
  } else {
    call.next_starts = next_starts(d, cut);
    is_launched = plain::launch(cut.tile, grid_of(d, cut, plain::shared_bytes(cut.tile, cut.warps)), call,
                                plain, args.stream, error);
  }
  if (!is_launched) return false;
  OCTET_TRY(launched(error, "attention"));
  return true;
}

PackedValues packed_values(const AttentionDesc& d, void* workspace) {
  constexpr std::int64_t kOrdered = 16;  // keys that have an order of their own (tile/key_order.h)
  const mma::Tile tile = mma::kTileTable[tile_of(d)];
  const bool is_dense = d.sequences == 0 && d.tokens_k > 0;
  const bool is_tile = tile.keys == PackedValues::kPlaces && tile.head_dim == d.head_dim_v;
  if (!is_dense || !is_tile || d.key_block % kOrdered != 0) return {};
  // Constants are all that is left to pack then: K is read where it is, and V's scales are not of the
  // channels of key blocks.
  const mma::Kernels& kernels = kernels_for(d, Cut{});
  const bool reads_k = scheme_info(d.scheme).qk == kernels.k_dtype && tile.head_dim == d.head_dim;
  if (!reads_k || d.recipe.v == Granularity::block_channel) return {};
  if (!kernels.takes_packed_v) return {};
  PackedValues values;
  values.data = static_cast<std::byte*>(workspace) + layout_of(d, {tile_of(d)}).v;
  values.blocks_of_sequence = static_cast<std::int32_t>(groups_of_sequence(d.tokens_k, d.key_block));
  values.blocks_per_head = static_cast<std::int32_t>(groups_of(d, d.tokens_k, d.key_block));
  values.key_block = static_cast<std::int32_t>(d.key_block);
  return values;
}

ConstantsOfKeys packed_constants(const AttentionDesc& d, void* workspace) {
  const PackedValues values = packed_values(d, workspace);
  const Cut cut = usual_cut(d);
  const mma::Kernels& kernels = kernels_for(d, cut);
  if (!values.data || kernels.constants == Constants::of_all_scales) return {};
  // Those of V are of tokens, or none that P carries.
  if (kernels.carries_v && d.recipe.v == Granularity::block) return {};
  PackedConstants of;
  of.key_block = Divider(d.key_block);
  of.blocks_of_sequence = values.blocks_of_sequence, of.blocks_per_head = values.blocks_per_head;
  auto* const to = static_cast<std::byte*>(workspace);
  const Layout at = layout_of(d, cut);
  ConstantsOfKeys both;
  if (kernels.constants == Constants::scale_of_block) {
    of.data = reinterpret_cast<float*>(to + at.blocks), of.of = PackedConstants::Of::blocks;
    both.k = of;
    return both;
  }
  of.data = reinterpret_cast<float*>(to + at.keys);
  of.words = kernels.key_bytes / static_cast<std::int32_t>(sizeof(float));
  both.k = of;
  if (kernels.carries_v) of.of = PackedConstants::Of::values, both.v = of;
  return both;
}

Status pack(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  Call call = call_of(d, args, cut);
  if (args.follows_codes_of_k) call.begins = Begins::beside_own;
  OCTET_TRY(put_table(d, kernels_for(d, cut), call, args.stream));
  if (d.tokens_k == 0 || !packs(call, kernels_for(d, cut))) return {};
  if (call.has_packed_v && (call.packed.k || call.packed.channels))
    return {Code::internal, "V came packed to a call that packs more than constants"};
  const void* const constants = args.k.scales.data;
  if (call.has_packed_v && (constants == call.packed.keys || constants == call.packed.blocks)) return {};
  return pack_blocks(d, call, cut, call.packed.blocks_per_head, args.stream);
}
Status pack(const AttentionDesc& d, const AttentionArgs& args) { return pack(d, args, usual_cut(d)); }

std::int64_t kept_bytes(const AttentionDesc& d, const TensorView& k) {
  const Cut cut = kept_packing(d, d.tokens_k);
  const Layout at = layout_of(d, cut);
  return reads_k(k, kernels_for(d, cut), mma::kTileTable[cut.tile]) ? at.k : at.bytes;
}
/// Ranges grow in number with the keys that there are, up to one a key block, or kMostRangeRows of outputs.
std::int64_t kept_workspace_bytes(const AttentionDesc& d) {
  if (!may_have_ranges(d) || !kernels_for(d, Cut{}).merges_ranges) return 0;
  const RangeCut one(d, 1);
  const std::int64_t rows = one.count * one.rows();
  const std::int64_t most = std::clamp<std::int64_t>(kMostRangeRows / rows, 1, key_blocks_of(d));
  return std::max(RangeCut(d, static_cast<std::int32_t>(most)).bytes(), hopper_range_bytes(d));
}
Status pack_kept(const AttentionDesc& d, const AttentionArgs& args, const KeptKeys& kept,
                 std::int64_t first) {
  const Cut cut = kept_packing(d, kept.capacity);
  Call call = call_of(d, args, cut, kept);
  if (first == 0) OCTET_TRY(put_table(d, kernels_for(d, cut), call, args.stream));
  const std::int64_t first_block = first / d.key_block, blocks = key_blocks_of(d) - first_block;
  if (blocks <= 0) return {};
  call.packs_part = true;
  call.part = {Divider(blocks), static_cast<std::int32_t>(first_block)};
  return pack_blocks(d, call, cut, d.batch * blocks, args.stream);
}
Status attend_kept(const AttentionDesc& d, const AttentionArgs& args, const KeptKeys& kept) {
  const Cut cut = kept_cut(d, kept.capacity);
  return attend_packed_keys(d, call_of(d, args, cut, kept), cut, static_cast<std::byte*>(args.workspace),
                            args.stream);
}

Status attend_packed(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  std::byte* const parts = static_cast<std::byte*>(args.workspace) + layout_of(d, cut).bytes;
  return attend_packed_keys(d, call_of(d, args, cut), cut, parts, args.stream);
}
Status attend_packed(const AttentionDesc& d, const AttentionArgs& args) {
  return attend_packed(d, args, usual_cut(d));
}

Status attend(const AttentionDesc& d, const AttentionArgs& args) {
  const Cut cut = usual_cut(d);
  OCTET_TRY(pack(d, args, cut));
  return attend_packed(d, args, cut);
}

}  // namespace octet::cuda
