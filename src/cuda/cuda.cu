#include "cuda/cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "base/try.h"
#include "cuda/attn/call.h"
#include "cuda/mma/launch.h"
#include "cuda/runtime/device.h"
#include "cuda/runtime/table.h"
#include "quant/quantize.h"

namespace octet::cuda {
namespace {

constexpr std::int64_t kAlignment = 64;
std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Groups of `size` tokens of all sequences, with room for a part of one in each (attn/sequence.cuh).
std::int64_t groups_of(const AttentionDesc& d, std::int64_t tokens, std::int64_t size) {
  if (d.sequences > 0) return tokens / size + d.sequences;
  return d.batch * ((tokens + size - 1) / size);
}

/// Channels that the kernels' tile holds: rotation may have padded Q and K.
std::int64_t widest_dim(const AttentionDesc& d, std::int64_t code_dim) {
  return std::max(code_dim, d.head_dim_v);
}

/// Q's and K's channels as codes.
std::int64_t code_dim(const AttentionDesc& d) {
  return d.recipe.rotate == Rotate::on ? quant::rotated_dim(d.head_dim) : d.head_dim;
}

int tile_of(const AttentionDesc& d) {
  const std::int64_t keys =
      d.sequences > 0 ? d.key_block : std::min(d.key_block, std::max<std::int64_t>(d.tokens_k, 1));
  return mma::tile_for(widest_dim(d, code_dim(d)), keys);
}

/// The kernels of a problem's scheme, in the form that suits it best.
const mma::Kernels& kernels_for(const AttentionDesc& d) {
  using G = Granularity;
  const auto is_one_of = [](G g, std::initializer_list<G> list) {
    return std::ranges::find(list, g) != list.end();
  };
  const bool uniform = is_one_of(d.recipe.k, {G::tensor, G::head, G::block}) &&
                       is_one_of(d.recipe.v, {G::tensor, G::head, G::channel}) &&
                       d.bias == AttentionDesc::Bias::none;
  if (const mma::Kernels* kernels = uniform ? mma::uniform_kernels_of(d.scheme) : nullptr) return *kernels;
  return *mma::kernels_of(d.scheme);
}

/// Where the parts of the packed keys lie in the workspace.
struct Layout {
  std::int64_t k = 0, v = 0, keys = 0, blocks = 0, channels = 0, table = 0, bytes = 0, blocks_per_head = 0;
};

Layout layout_of(const AttentionDesc& d, int tile_index) {
  const mma::Kernels& kernels = kernels_for(d);
  const mma::Tile tile = mma::kTileTable[tile_index];
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

/// Whether kernels read K's rows as they are: the products' elements, a whole tile's channels, 16 bytes a
/// step.
bool reads_k(const TensorView& k, const mma::Kernels& kernels, const mma::Tile& tile) {
  if (k.dtype != kernels.k_dtype || k.shape[3] != tile.head_dim || k.stride[3] != 1) return false;
  if (reinterpret_cast<std::uintptr_t>(k.data) % 16 != 0) return false;
  for (std::size_t a = 0; a < 3; ++a)
    if (k.stride[a] * kernels.k_bytes % 16 != 0) return false;
  return true;
}

Call call_of(const AttentionDesc& d, const AttentionArgs& args, int tile_index) {
  const mma::Kernels& kernels = kernels_for(d);
  const mma::Tile tile = mma::kTileTable[tile_index];
  const Layout at = layout_of(d, tile_index);
  auto* workspace = static_cast<std::byte*>(args.workspace);
  Call call;
  call.prepare.softmax_scale = d.softmax_scale;
  call.prepare.head_dim = static_cast<std::int32_t>(d.head_dim);
  call.prepare.key_block = static_cast<std::int32_t>(d.key_block);
  call.prepare.tokens_k = d.tokens_k;
  call.prepare.options = d.options;
  call.heads_q = static_cast<std::int32_t>(d.heads_q);
  call.group = Divider(d.heads_q / d.heads_kv);
  call.dim_v = static_cast<std::int32_t>(d.head_dim_v);
  call.key_block = Divider(d.key_block);
  call.mask = d.mask;
  // A window as wide as all tokens hides nothing more than a wider one.
  const std::int64_t all = d.tokens_q + d.tokens_k;
  call.window_left = static_cast<std::int32_t>(std::min(d.window_left, all));
  call.window_right = static_cast<std::int32_t>(std::min(d.window_right, all));
  const auto count = static_cast<std::int32_t>(d.sequences > 0 ? d.sequences : d.batch);
  call.queries = {args.cu_seqlens_q, static_cast<std::int32_t>(d.tokens_q), count};
  call.keys = {args.cu_seqlens_k, static_cast<std::int32_t>(d.tokens_k), count};
  call.q = device_operand(args.q), call.k = device_operand(args.k), call.v = device_operand(args.v);
  call.tensor_scales[0] = args.q.scales.data && d.recipe.q == Granularity::tensor;
  call.tensor_scales[1] = args.k.scales.data && d.recipe.k == Granularity::tensor;
  call.tensor_scales[2] = args.v.scales.data && d.recipe.v == Granularity::tensor;
  call.is_placed_by_memory = args.cu_seqlens_q || args.cu_seqlens_k || call.tensor_scales[0] ||
                             call.tensor_scales[1] || call.tensor_scales[2];
  if (args.bias.data && d.bias != AttentionDesc::Bias::none) {
    call.bias.kind = d.bias;
    call.bias.tensor = device_tensor(args.bias);
    for (std::size_t a = 0; a < 4; ++a)
      if (args.bias.shape[a] == 1) call.bias.tensor.stride[a] = 0;
  }
  call.o = device_tensor(args.o), call.lse = device_tensor(args.lse);
  call.o_scale = device_tensor(args.o_scale), call.q_anchor = device_tensor(args.q_anchor);
  if (!reads_k(args.k.codes, kernels, tile)) call.packed.k = workspace + at.k;
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

bool fits(const AttentionDesc& d, const Cut& cut) {
  return kernels_for(d).shared_bytes(cut.tile, cut.warps) <= runtime::shared_bytes();
}

/// The smallest tile that holds the problem. Warps of a block of threads share what they copy of K and V: as
/// many as there may be, but two where a processor then has up to three blocks of those, for the work is then
/// shared out more evenly (8 x 6 x 197 x 64 on an H200: 8.3 instead of 8.6 us, of one warp 8.7); fewer where
/// more do not fit the shared memory. bench/cuda_tiles.cpp measures the others (docs/cuda.md).
Cut usual_cut(const AttentionDesc& d) {
  constexpr std::int32_t kFew = 2;
  constexpr std::int64_t kFewBlocks = 3;
  Cut cut{tile_of(d), mma::kMostWarps};
  if (groups_of(d, d.tokens_q, kFew * mma::kRowsAWarp) * d.heads_q <= kFewBlocks * runtime::processors())
    cut.warps = kFew;
  while (cut.warps > 1 && !fits(d, cut)) cut.warps /= 2;
  return cut;
}

}  // namespace

std::string refusal(const AttentionDesc& d) {
  if (!mma::kernels_of(d.scheme)) return "the mma kernels have no such scheme";
  if (std::string reason = runtime::refusal(); !reason.empty()) return reason;
  if (widest_dim(d, code_dim(d)) > mma::kMostDim)
    return "the mma kernels hold head dims up to " + std::to_string(mma::kMostDim) +
           " (rotation pads to a multiple of 16)";
  if (tile_of(d) < 0)
    return "key_block is " + std::to_string(d.key_block) + ", and the mma kernels hold key blocks up to " +
           std::to_string(mma::kMostKeys) + "; plan with that or less";
  const std::int64_t needed = kernels_for(d).shared_bytes(tile_of(d), 1);
  if (needed > runtime::shared_bytes())
    return "head dims up to " + std::to_string(mma::kTileTable[tile_of(d)].head_dim) + " need " +
           std::to_string(needed) + " bytes of shared memory a block, and the current device has " +
           std::to_string(runtime::shared_bytes());
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 29;  // sums of two numbers of tokens fit 31 bits
  if (d.tokens_q > kMostTokens || d.tokens_k > kMostTokens) return "the mma kernels count up to 2^29 tokens";
  return {};
}

std::vector<Cut> cuts_of(const AttentionDesc& d) {
  std::vector<Cut> cuts{usual_cut(d)};
  const mma::Tile least = mma::kTileTable[tile_of(d)];
  for (std::int32_t tile = 0; tile < mma::kTileCount; ++tile) {
    if (mma::kTileTable[tile].head_dim < least.head_dim || mma::kTileTable[tile].keys < least.keys) continue;
    for (std::int32_t warps = mma::kMostWarps; warps >= 1; warps /= 2) {
      const bool is_first = tile == cuts[0].tile && warps == cuts[0].warps;
      if (!is_first && fits(d, {tile, warps})) cuts.push_back({tile, warps});
    }
  }
  return cuts;
}

std::int64_t workspace_bytes(const AttentionDesc& d, const Cut& cut) { return layout_of(d, cut.tile).bytes; }
std::int64_t workspace_bytes(const AttentionDesc& d) { return layout_of(d, tile_of(d)).bytes; }

Status pack(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  const mma::Kernels& kernels = kernels_for(d);
  const Call call = call_of(d, args, cut.tile);
  if (kernels.table_entries) {
    std::vector<float> table(static_cast<std::size_t>(kernels.table_entries(d.options)));
    kernels.fill_table(d.options, table.data());
    OCTET_TRY(launched(runtime::put_table(table, call.packed.table, args.stream), "table"));
  }
  if (d.tokens_k == 0) return {};
  const mma::Grid grid{call.packed.blocks_per_head, static_cast<std::int32_t>(d.heads_kv)};
  return launched(kernels.pack(call, cut.tile, grid, args.stream), "packing");
}
Status pack(const AttentionDesc& d, const AttentionArgs& args) { return pack(d, args, usual_cut(d)); }

Status attend_packed(const AttentionDesc& d, const AttentionArgs& args, const Cut& cut) {
  const mma::Kernels& kernels = kernels_for(d);
  const Call call = call_of(d, args, cut.tile);
  mma::Grid grid;
  grid.warps = cut.warps;
  grid.groups = static_cast<std::int32_t>(groups_of(d, d.tokens_q, grid.warps * mma::kRowsAWarp));
  grid.heads = static_cast<std::int32_t>(d.heads_q);
  return launched(kernels.attend(call, cut.tile, grid, args.stream), "attention");
}
Status attend_packed(const AttentionDesc& d, const AttentionArgs& args) {
  return attend_packed(d, args, usual_cut(d));
}

Status attend(const AttentionDesc& d, const AttentionArgs& args) {
  OCTET_TRY(pack(d, args));
  return attend_packed(d, args);
}

}  // namespace octet::cuda
