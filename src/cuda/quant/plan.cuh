// What the host decides before it launches: how rows are read, and what lies where in scratch memory.
#pragma once
#include "cuda/quant/quantize.h"
#include "cuda/quant/rows.cuh"
#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// How rows of x become rows of `channels` code channels: shape and addresses, no steps.
RowReading reading_of(const TensorView& x, const Sequences& sequences, std::int64_t channels);

/// The rotation of `channels` code channels.
void set_rotation(RowReading& rows, std::int64_t dim, std::uint64_t seed);

/// Whether scales are of sequences of heads, or of their channels.
inline bool scales_sequences(const quant::OperandRecipe& recipe) {
  return recipe.granularity == Granularity::head || recipe.granularity == Granularity::channel;
}

/// The memory of one call, as offsets from its beginning; 0 bytes of what the recipe does not need.
struct ScratchPlan {
  /// What begins all scratch memory of an operand of which all tokens share a scale: a word of each operand
  /// of a launch.
  static constexpr std::int64_t kWordsOfTensors = kMostTogether;
  Groups subtrees, scales, heads, blocks;
  int subtree_leaves_log2 = 0;
  std::int64_t subtree_sum = 0, subtree_range = 0;
  std::int64_t amax = 0, head_amax = 0, block_amax = 0, amax_end = 0;  // one after the other: zeros at first
  std::int64_t rscale = 0, first_group = 0;
  std::int64_t one_pass = 0;
  std::int64_t bytes = 0;
  std::int64_t channels = 0, channel_groups = 1;

  ScratchPlan(const std::array<std::int64_t, 4>& shape, const quant::OperandRecipe& recipe,
              std::int64_t packed_sequences);
};

/// What the kernels can address; ok where they take the tensor.
Status check_size(const TensorView& x, std::int64_t channels, const ScratchPlan* scratch);

/// Whether rows lie at multiples of so many bytes, and so many elements apart, with their channels together.
bool is_multiple(const TensorView& x, std::int64_t elements, std::int64_t bytes);

/// Whether eight codes may be written at once.
bool codes_in_vectors(const TensorView& codes);

/// The status of the launches so far.
Status launch_status(const char* what);

}  // namespace octet::cuda
