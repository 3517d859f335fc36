#include "cuda/quant/plan.cuh"

#include <algorithm>
#include <string>

#include "cuda/quant/launch.cuh"
#include "cuda/quant/one_pass.cuh"
#include "cuda/quant/sums.cuh"
#include "cuda/runtime/device.h"
#include "octet/dtype.hpp"
#include "quant/codes.h"
#include "quant/rotate.h"
#include "quant/transform.h"
#include "quant/tree.h"

namespace octet::cuda {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30;  // Divider and row numbers have 31 bits
constexpr std::int64_t kVectorBytes = 16;

class Arena {
 public:
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t at = end_;
    end_ += (bytes + kVectorBytes - 1) / kVectorBytes * kVectorBytes;
    return at;
  }
  std::int64_t end() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

}  // namespace

bool is_multiple(const TensorView& x, std::int64_t elements, std::int64_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(bytes) != 0) return false;
  for (const std::size_t axis : {0, 1, 2})
    if (x.shape[axis] > 1 && x.stride[axis] % elements != 0) return false;
  return x.shape[3] == 1 || x.stride[3] == 1;
}

RowReading reading_of(const TensorView& x, const Sequences& sequences, std::int64_t channels) {
  RowReading r;
  r.x = x;
  r.order = RowOrder(x, sequences);
  r.dim = static_cast<int>(x.shape[3]);
  r.channels = static_cast<int>(channels);
  while (r.channels > (kChannels << r.lanes_log2)) ++r.lanes_log2;
  constexpr std::int64_t kBytes = 16;
  r.in_vectors = is_multiple(x, kBytes / (x.dtype == DType::f32 ? 4 : 2), kBytes);
  return r;
}

void set_rotation(RowReading& rows, std::int64_t dim, std::uint64_t seed) {
  const std::int64_t block = quant::rotation_block(dim);
  rows.hadamard = static_cast<int>(block);
  rows.norm = quant::rotation_norm(block);
  for (int c = 0; c < rows.channels; ++c)
    if (quant::rotation_sign(seed, c) < 0) rows.sign[c / kWarp] |= 1u << (c % kWarp);
}

ScratchPlan::ScratchPlan(const std::array<std::int64_t, 4>& shape, const quant::OperandRecipe& recipe,
                         std::int64_t packed_sequences) {
  channels = quant::code_dim(shape[3], recipe.rotate);
  const bool has_scales = quant::has_scales(recipe.format);
  const Granularity by = recipe.granularity;
  const bool by_channel = by == Granularity::channel || by == Granularity::block_channel;
  const bool in_blocks = by == Granularity::block || by == Granularity::block_channel;
  channel_groups = has_scales && by_channel ? channels : 1;
  Arena arena;
  arena.take(has_scales && by == Granularity::tensor ? kWordsOfTensors * 4 : 0);
  subtree_leaves_log2 = cuda::subtree_leaves_log2(shape, packed_sequences, channels);
  subtrees = Groups(shape, packed_sequences, quant::TreeSum::kLeafTokens << subtree_leaves_log2);
  const std::int64_t subtree_bytes = subtrees.slots() * channels * 4;
  const bool sums = recipe.smooth == Smooth::mean, squares = recipe.equalise == Equalise::on;
  subtree_sum = arena.take(sums || squares ? subtree_bytes : 0);
  subtree_range = arena.take(squares ? subtree_bytes : 0);
  if (has_scales) {
    const bool has_groups = by != Granularity::token;
    scales = by == Granularity::tensor ? Groups::all_in_one()
                                       : Groups(shape, packed_sequences, in_blocks ? recipe.block : 0);
    heads = Groups(shape, packed_sequences, 0);
    blocks = Groups(shape, packed_sequences, recipe.block_floor_octaves > 0 ? recipe.block : 0);
    const std::int64_t scale_bytes = has_groups ? scales.slots() * channel_groups * 4 : 0;
    amax = arena.take(scale_bytes);
    head_amax = arena.take(recipe.head_floor_octaves > 0 ? heads.slots() * 4 : 0);
    block_amax = arena.take(recipe.block_floor_octaves > 0 ? blocks.slots() * 4 : 0);
    amax_end = arena.end();
    rscale = arena.take(scale_bytes);
    first_group = arena.take(in_blocks ? packed_sequences * 8 : 0);
  }
  const bool is_of_sequences =
      has_scales && recipe.rotate == Rotate::off && !sums && scales_sequences(recipe);
  const bool has_one = (sums != squares || is_of_sequences) && packed_sequences == 0;
  one_pass = arena.take(has_one ? one_pass_bytes(shape, sums ? Statistic::mean : Statistic::norms) : 0);
  bytes = arena.end();
}

Status check_size(const TensorView& x, std::int64_t channels, const ScratchPlan* scratch) {
  if (channels > kMostChannels) {
    return unsupported("the operand has " + std::to_string(channels) +
                       " code channels; the GPU's quantiser takes at most " + std::to_string(kMostChannels) +
                       ", so use the CPU's");
  }
  const std::int64_t slots =
      scratch ? std::max({scratch->subtrees.slots(), scratch->scales.slots() * scratch->channel_groups,
                          scratch->heads.slots(), scratch->blocks.slots()})
              : 0;
  if (x.shape[0] * x.shape[1] * x.shape[2] >= kMostRows || slots >= kMostRows) {
    return unsupported("the operand's shape is " + shape_text(x.shape) +
                       "; the GPU's quantiser takes fewer than 2^30 rows at once, so split the batch");
  }
  return {};
}

std::uint32_t processors() {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(runtime::processors(), 1));
}

Status launch_status(const char* what) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return {Code::internal, std::string(what) + " could not be launched: " + cudaGetErrorString(error)};
}

bool codes_in_vectors(const TensorView& codes) {
  const std::int64_t bits = kChannels * dtype_bits(codes.dtype), bytes = bits / 8;
  return is_multiple(codes, kChannels, bytes < kVectorBytes ? bytes : kVectorBytes);
}

}  // namespace octet::cuda
