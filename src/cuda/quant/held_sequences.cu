// Statistics and codes of sequences in one reading and one launch: blocks of threads hold the rows of a
// sequence of a head, one all of it or a cluster a part each, find what its rows have in common, and make
// codes of them.
#include "cuda/quant/held_sequences.cuh"

#include <algorithm>

#include "base/divided_up.h"
#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/held_codes.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/one_pass.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.cuh"
#include "cuda/runtime/launch_clusters.cuh"

namespace octet::cuda {
namespace {

inline constexpr int kMostWarps = 8;

struct HeldOperand {
  ShortOperand x;  ///< rows_of_part: of a block of threads
  Divider parts;   ///< of a sequence
  std::uint32_t first_block = 0, blocks = 0;
};
struct HeldOperands {
  HeldOperand of[kMostTogether];
  std::uint32_t count = 0;
};

/// Whether codes wait for all rows of a sequence.
OCTET_HD bool needs_all(const ShortOperand& x) {
  const bool has_one_scale = x.coding.scale_of == ScaleOf::group && x.coding.groups.tokens == 0;
  return x.rows.shift.data || x.rows.exponent.data || has_one_scale;
}

template <class Shape, HeldScales kScales, DType kType, Work kWork>
__device__ __forceinline__ void encode(const HeldOperand& of, std::uint32_t block, HeldSpace<Shape>& space) {
  const ShortOperand& x = of.x;
  const std::uint32_t unit = of.parts.quotient(block);
  HeldPart at;
  at.parts = needs_all(x) ? static_cast<std::int32_t>(of.parts) : 1;
  at.part = static_cast<std::int32_t>(block - unit * of.parts.divisor);
  at.b = static_cast<std::int32_t>(unit) / x.rows.order.heads;
  at.h = static_cast<std::int32_t>(unit) - at.b * x.rows.order.heads;
  at.first = at.part * x.rows_of_part;
  at.rows = min(x.rows_of_part, static_cast<std::int32_t>(x.rows.x.shape[2]) - at.first);
  HeldSequence<Shape, kWork, kScales, kType>(x, at, space).run();
}

template <class Shape, HeldScales kScales, DType kType>
__global__ __launch_bounds__(kMostWarps* kWarp,
                             2) void held_sequences(const __grid_constant__ HeldOperands operands) {
#if __CUDA_ARCH__ >= 900  // note: clusters, and what was measured, are of no older ones, see is_held_built()
  OCTET_DYNAMIC_SHARED(held_memory, 128);  // row_place() counts on it
  auto& space = *reinterpret_cast<HeldSpace<Shape>*>(held_memory);
  std::uint32_t number = 0;
  while (number + 1 < operands.count && blockIdx.x >= operands.of[number + 1].first_block) ++number;
  const HeldOperand& of = operands.of[number];
  const std::uint32_t block = blockIdx.x - of.first_block;
  if (block >= of.blocks) return ptx::wait_for_earlier_kernels();
  if (of.x.rows.hadamard == 0)
    encode<Shape, kScales, kType, Work::multiplied>(of, block, space);
  else
    encode<Shape, kScales, kType, Work::shifted_and_rotated>(of, block, space);
#endif
}

/// Whether constants follow from scales that the kernels make. Of V that has not one a token P carries none.
bool makes_constants(const ShortOperand& x) {
  using Of = PackedConstants::Of;
  const bool is_token = x.coding.scale_of == ScaleOf::token;
  if (x.coding.constants.of == Of::blocks) {
    const std::int64_t of_block = std::min<std::int64_t>(x.coding.constants.key_block, x.rows.x.shape[2]);
    return !is_token && x.coding.groups.tokens == of_block;
  }
  return is_token || x.coding.constants.of == Of::values;
}

std::uint32_t tokens_of(const ShortOperand& x) { return static_cast<std::uint32_t>(x.rows.x.shape[2]); }
bool is_of_groups(const ShortOperand& x) { return x.coding.scale_of == ScaleOf::group; }

std::uint32_t leaves_of(const ShortOperand& x) { return divided_up(tokens_of(x), kLeafRows); }

/// Leaves that a block holds at most, a power of two: 64 KB of rows, where three such blocks share a
/// processor (Hopper's), else fewer.
std::uint32_t most_leaves(const ShortOperand& x) {
  constexpr std::int64_t kLeastBlocks = 3;
  const std::int64_t dim = x.rows.x.shape[3];
  const auto bytes = [&](std::uint32_t leaves) {
    const int rows = static_cast<int>(leaves) * kLeafRows;
    return static_cast<std::int64_t>(dim == 64 ? HeldSpace<SegmentShape<64>>::bytes(rows)
                                               : HeldSpace<SegmentShape<128>>::bytes(rows));
  };
  auto leaves = static_cast<std::uint32_t>(kMostLeavesOfPart * 64 / dim);
  while (leaves > 1 && runtime::blocks_of(bytes(leaves)) < kLeastBlocks) leaves /= 2;
  return leaves;
}

/// Tokens of groups that have a scale, or a floor of tokens' scales; 0: there are none.
std::int64_t tokens_of_groups(const ShortOperand& x) {
  return is_of_groups(x) || x.coding.making.block_floor.octaves > 0 ? x.coding.groups.tokens : 0;
}
/// Whether parts of whole leaves are whole groups.
bool has_whole_groups(const ShortOperand& x) {
  const std::int64_t tokens = tokens_of_groups(x);
  return tokens == 0 || kLeafRows % tokens == 0;
}

/// Leaves of a part at least: of a sequence that needs all of its rows there are no more parts than a cluster
/// has blocks.
std::uint32_t least_leaves(const ShortOperand& x) {
  if (!has_whole_groups(x)) return leaves_of(x);
  return needs_all(x) ? divided_up(leaves_of(x), kMostParts) : 1;
}

/// What a block has: of leaves a power of two, or all of a sequence.
struct HeldCut {
  std::uint32_t leaves = 1, warps = kMostWarps;
};

/// Measured on an H200 (docs/cuda-measurements.md): the least leaves by which no processor has more than four
/// blocks, of as many warps as they have tiles. Where there are more blocks anyway, those of fewer warps, of
/// which more share a processor.
HeldCut cut_for(std::span<const ShortOperand> operands) {
  constexpr std::uint32_t kFewOfProcessor = 4;
  const auto blocks = [&](std::uint32_t leaves) {
    std::uint32_t all = 0;
    for (const ShortOperand& x : operands) all += units_of(x.rows) * divided_up(leaves_of(x), leaves);
    return all;
  };
  const std::uint32_t few = kFewOfProcessor * processors();
  std::uint32_t least = 1;
  for (const ShortOperand& x : operands) least = std::max(least, least_leaves(x));
  HeldCut cut;
  while (cut.leaves < least || (cut.leaves < most_leaves(operands[0]) && blocks(cut.leaves) > few))
    cut.leaves *= 2;
  // note: groups that do not end with a turn of the warps are looked at in a turn before, which of rows that
  // are rotated takes as long as codes.
  constexpr std::uint32_t kFewWarps = kMostWarps / 2;
  const bool has_odd_groups = std::ranges::any_of(operands, [](const ShortOperand& x) {
    const std::int64_t group = tokens_of_groups(x);
    return x.rows.hadamard > 0 && (group % (kWarp / 2) != 0 || group > std::int64_t{kFewWarps} * kWarp);
  });
  if (operands[0].rows.x.shape[3] == 64 && blocks(cut.leaves) > few && !has_odd_groups) cut.warps = kFewWarps;
  return cut;
}

/// Blocks of a cluster; 1: there are none.
std::uint32_t cluster_of(std::span<const ShortOperand> operands, const HeldCut& cut) {
  for (const ShortOperand& x : operands)
    if (needs_all(x)) return divided_up(leaves_of(x), cut.leaves);
  return 1;
}
/// Whether the current device runs code of the kernels that is more than their names.
bool is_held_built() {
  bool is_of_90 = false;
  return runtime::may_overlap(reinterpret_cast<const void*>(
                                  held_sequences<SegmentShape<64>, HeldScales::of_tokens, DType::bf16>),
                              &is_of_90) == cudaSuccess &&
         is_of_90;
}

/// Whether all constants of keys are written beside scales, so that nothing is left to pack.
bool saves_packing(std::span<const ShortOperand> operands) {
  const auto are_asked_for = [](const ShortOperand& x) { return x.coding.constants.data != nullptr; };
  return std::ranges::any_of(operands, are_asked_for) &&
         std::ranges::all_of(operands,
                             [&](const ShortOperand& x) { return !are_asked_for(x) || makes_constants(x); });
}

/// Whether one launch takes both: blocks of one kernel, and clusters of one size.
bool share_a_launch(const ShortOperand& a, const ShortOperand& b) {
  return a.rows.x.shape[3] == b.rows.x.shape[3] && a.rows.x.dtype == b.rows.x.dtype &&
         (!needs_all(a) || !needs_all(b) || tokens_of(a) == tokens_of(b));
}

template <class Shape, DType kType>
void launch_held_of(std::span<ShortOperand> operands, void* stream) {
  const HeldCut cut = cut_for(operands);
  HeldOperands all{};
  const std::uint32_t cluster = cluster_of(operands, cut);
  std::uint32_t blocks = 0, rows = 1;
  // Those with a statistic come first, for they take longer.
  for (const bool has_statistic : {true, false}) {
    for (ShortOperand& x : operands) {
      if (needs_all(x) != has_statistic) continue;
      const std::uint32_t parts = divided_up(tokens_of(x), cut.leaves * kLeafRows);
      const std::uint32_t own = parts == 1 ? tokens_of(x) : cut.leaves * kLeafRows;
      if (parts > 1 && kLeafRows % std::max(x.coding.packed.key_block, 1) != 0) x.coding.packed = {};
      const PackedConstants& constants = x.coding.constants;
      if (!makes_constants(x) || (parts > 1 && kLeafRows % constants.key_block != 0)) x.coding.constants = {};
      HeldOperand& of = all.of[all.count++];
      of.x = x;
      of.x.rows_of_part = static_cast<int>(own);
      of.parts = Divider(parts);
      of.first_block = blocks, of.blocks = units_of(x.rows) * parts;
      blocks = divided_up(blocks + of.blocks, cluster) * cluster;
      rows = std::max(rows, own);
    }
  }
  const std::size_t bytes = HeldSpace<Shape>::bytes(static_cast<int>(rows));
  const auto tiles = static_cast<std::uint32_t>(HeldSpace<Shape>::lines_of(static_cast<int>(rows)) / kWarp);
  // An even number, so that threads have whole eights of lines in turn, and a thread a channel or more.
  constexpr std::uint32_t kLeast = Shape::kDim / kWarp;
  const std::uint32_t threads = std::max(std::min(cut.warps, (tiles + 1) / 2 * 2), kLeast) * kWarp;
  const auto launch = [&](auto* kernel) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(runtime::shared_bytes()));
    if (cluster > 1)
      runtime::launch_clusters(kernel, dim3(cluster), dim3(blocks), threads, bytes, stream, all);
    else
      runtime::launch(kernel, blocks, threads, bytes, stream, all);
  };
  if (std::ranges::any_of(operands, is_of_groups))
    launch(held_sequences<Shape, HeldScales::of_groups_too, kType>);
  else
    launch(held_sequences<Shape, HeldScales::of_tokens, kType>);
}

}  // namespace

bool can_hold(const ShortOperand& x) {
  const RowReading& r = x.rows;
  const Coding& k = x.coding;
  const bool has_dim = r.dim == 64 || r.dim == 128;
  if (!is_of_dense_s8(x) || !has_dim || r.x.shape[2] < 2) return false;
  const bool is_rotated = r.hadamard == r.dim && !r.exponent.data,
             is_multiplied = r.hadamard == 0 && !r.shift.data;
  if (!is_rotated && !is_multiplied) return false;
  const bool has_floor = k.making.block_floor.octaves > 0, is_key_block = k.groups.tokens > 0;
  if (has_floor && (is_rotated || is_of_groups(x))) return false;
  if (is_of_groups(x) && is_key_block != is_rotated) return false;
  // Of V scales of the sequence or its channels, of K, which is shifted, of key blocks.
  if (is_of_groups(x) && is_rotated && (!r.shift.data || k.channel_groups > 1)) return false;
  const std::int64_t of_group = tokens_of_groups(x);
  if (of_group > 0 && (r.x.shape[2] > of_group * kMostGroups)) return false;
  return least_leaves(x) <= most_leaves(x);
}

/// Measured on an H200 (docs/cuda-measurements.md#what-blocks-of-held-sequences-wait-for).
bool should_hold(std::span<const ShortOperand> operands) {
  std::uint32_t sequences = 0, longest = 0, leaves = 0;
  std::int64_t elements = 0;
  int statistics = 0;
  for (const ShortOperand& x : operands) {
    for (const ShortOperand& y : operands)
      if (!share_a_launch(x, y)) return false;
    const std::int64_t each = x.rows.x.shape[2] * x.rows.x.shape[3];
    sequences += units_of(x.rows), elements += units_of(x.rows) * each;
    longest = std::max(longest, static_cast<std::uint32_t>(each));
    leaves = std::max(leaves, leaves_of(x));
    statistics += needs_all(x) ? 1 : 0;
  }
  if (statistics == 0 || !is_held_built()) return false;
  // Shorter sequences, unless they are many, are better off where all threads share their sums, and the more
  // so where one operand alone has any; and the less so where constants written beside scales save packing.
  const bool has_one_statistic = statistics == 1;
  constexpr std::uint32_t kManyOfProcessor = 2;
  const std::uint32_t long_elements = 1024 * (has_one_statistic ? 32 : saves_packing(operands) ? 8 : 12);
  if (sequences < kManyOfProcessor * processors() && longest < long_elements) return false;
  const HeldCut cut = cut_for(operands);
  const bool is_whole =
      std::ranges::all_of(operands, [&](const ShortOperand& x) { return leaves_of(x) <= cut.leaves; });
  if (is_whole) return true;
  // More than that in parts is read faster by kernels whose warps have their next rows on the way, once.
  constexpr std::int64_t kMiB = 1 << 20;
  const std::int64_t most_of_parts = (has_one_statistic ? 64 : 128) * kMiB;  // bytes of all operands
  return leaves < kLeastLeavesOfUnit || 2 * elements <= most_of_parts;
}

void launch_held_sequences(std::span<ShortOperand> operands, void* stream) {
  const auto launch = [&]<DType kType>() {
    if (operands[0].rows.x.shape[3] == 64)
      launch_held_of<SegmentShape<64>, kType>(operands, stream);
    else
      launch_held_of<SegmentShape<128>, kType>(operands, stream);
  };
  if (operands[0].rows.x.dtype == DType::f16)
    launch.template operator()<DType::f16>();
  else
    launch.template operator()<DType::bf16>();
}

}  // namespace octet::cuda
