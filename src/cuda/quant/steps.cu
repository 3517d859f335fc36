#include "cuda/quant/steps.cuh"

#include "cuda/quant/encode.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/one_pass.cuh"
#include "cuda/quant/sums.cuh"
#include "quant/codes.h"

namespace octet::cuda {
namespace {

/// The most tokens of a group that one block of threads looks at twice while they are in the cache; groups of
/// more are measured by all blocks.
constexpr std::int64_t kMostOfTile = 1024;

Subtrees subtrees_of(const OperandCall& call) {
  const ScratchPlan& plan = call.plan;
  return {plan.subtrees, plan.subtree_leaves_log2, plan.channels, call.at<float>(plan.subtree_sum),
          call.at<std::uint32_t>(plan.subtree_range)};
}

Tile tile_of(const OperandCall& call) {
  const quant::OperandRecipe& recipe = call.recipe();
  if (recipe.granularity == Granularity::block && call.plan.scales.tokens <= kMostOfTile) return Tile::scale;
  const bool has_floor = recipe.granularity == Granularity::token && recipe.block_floor_octaves > 0;
  return has_floor && call.plan.blocks.tokens <= kMostOfTile ? Tile::floor : Tile::none;
}

/// What scales and floors are made of, but for those of tiles.
ScaleMaking making_of(const OperandCall& call, Tile tile) {
  const quant::OperandRecipe& recipe = call.recipe();
  const ScratchPlan& plan = call.plan;
  ScaleMaking making{recipe.rule, recipe.largest_code, recipe.shared_amax, call.words.shared_amax, {}, {}};
  const bool is_token = recipe.granularity == Granularity::token;
  // Blocks have the head's floor only; coarser groups are their own reference.
  if (is_token || recipe.granularity == Granularity::block)
    making.head_floor = {call.at<std::uint32_t>(plan.head_amax), plan.heads, recipe.head_floor_octaves};
  if (is_token)
    making.block_floor = {tile == Tile::floor ? nullptr : call.at<std::uint32_t>(plan.block_amax),
                          plan.blocks, recipe.block_floor_octaves};
  return making;
}

}  // namespace

bool OperandCall::has_shift() const {
  return recipe().smooth == Smooth::anchor && recipe().anchor.data &&
         recipe().anchor.data == out().mean.data && recipe().anchor.shape == out().mean.shape;
}

Confine confine_of(DType format) {
  if (quant::is_integer(format)) return Confine::row;
  return format == DType::e4m3 ? Confine::infinity : Confine::nothing;
}

Coding coding_of(const OperandCall& call) {
  const quant::OperandRecipe& recipe = call.recipe();
  Coding coding;
  coding.codes = call.out().codes;
  coding.in_vectors = codes_in_vectors(call.out().codes);
  coding.non_finite = call.words.non_finite;
  if (!quant::has_scales(recipe.format)) return coding;
  coding.scales = call.out().scales;
  coding.clamps = call.is_shared() || recipe.largest_code > 127 || call.plan.channel_groups > 1;
  coding.scale_of = recipe.granularity == Granularity::token ? ScaleOf::token : ScaleOf::group;
  coding.channel_groups = static_cast<int>(call.plan.channel_groups);
  return coding;
}

OperandSteps::OperandSteps(const OperandCall& call, Launches launches)
    : call_(call), tile_(tile_of(call)), making_(making_of(call, tile_)) {
  if (tries_one_pass(launches)) {
    add(Step::clear_one_pass);
    add(Step::one_pass);
  } else {
    add_single_steps();
  }
}

void OperandSteps::add_single_steps() {
  const quant::OperandRecipe& recipe = call_.recipe();
  if (recipe.smooth == Smooth::mean) {
    add(Step::mean_of_leaves);
    add(Step::mean);
  } else if (recipe.smooth != Smooth::none && !call_.has_shift()) {
    add(Step::anchor);
  }
  if (recipe.equalise == Equalise::on) {
    if (recipe.rotate == Rotate::off) add(Step::squares);  // no scheme has both
    add(Step::exponents);
  }
  if (quant::has_scales(recipe.format)) {
    const bool is_token = recipe.granularity == Granularity::token;
    scales_follow_ = scales_follow_exponents();
    if (!call_.is_shared() && !scales_follow_) {
      measures_groups_ = !is_token && tile_ != Tile::scale;
      measures_heads_ = making_.head_floor.octaves > 0;
      measures_blocks_ = making_.block_floor.octaves > 0 && tile_ != Tile::floor;
    }
    if (measures_groups_ || measures_heads_ || measures_blocks_) add(Step::amax);
    if (!is_token) {
      if (call_.operand.sequences.cu_seqlens && call_.out().tokens_per_scale > 0) add(Step::first_groups);
      if (tile_ == Tile::none && !scales_follow_) add(Step::scales);
    }
  }
  add(Step::codes);
}

/// Whether what exponents are made of has the largest of each channel, and sequences or their channels have
/// scales.
bool OperandSteps::scales_follow_exponents() const {
  const quant::OperandRecipe& recipe = call_.recipe();
  return scales_sequences(recipe) && !call_.is_shared() && recipe.equalise == Equalise::on &&
         recipe.rotate == Rotate::off && recipe.smooth == Smooth::none && call_.operand.x.dtype != DType::f32;
}

void OperandSteps::clear() const {
  const ScratchPlan& plan = call_.plan;
  if (measures_groups_ || measures_heads_ || measures_blocks_)
    cudaMemsetAsync(call_.at<void>(plan.amax), 0, static_cast<std::size_t>(plan.amax_end - plan.amax),
                    stream_of(call_.stream));
}

/// Rows whose statistic is there: shifted and rotated, and equalised.
RowReading OperandSteps::transformed_rows() const {
  const quant::OperandRecipe& recipe = call_.recipe();
  RowReading rows = call_.rows;
  if (recipe.smooth != Smooth::none) rows.shift = call_.out().mean;
  if (recipe.rotate == Rotate::on) set_rotation(rows, call_.operand.x.shape[3], recipe.rotation_seed);
  rows.confine = confine_of(recipe.format);
  if (recipe.equalise == Equalise::on) rows.exponent = call_.out().channel_exponent;
  return rows;
}

void OperandSteps::queue(Begin begin) {
  const Step step = steps_[next_++];
  void* const stream = call_.stream;
  RowReading come = call_.rows, rows = transformed_rows();
  come.begin = rows.begin = begin;
  switch (step) {
    case Step::clear_one_pass:
      clear_for_one_pass(rows_of_one_pass(), call_.at<void>(call_.plan.one_pass), begin, stream);
      break;
    case Step::one_pass:
      if (const OnePassOperand of = one_pass(); launch_one_pass({&of, 1}, stream)) {
        note_packed();
        break;
      }
      // Nothing was queued: what the turn's next operand begins beside is the first of these then.
      add_single_steps();
      return queue(begin);
    case Step::mean_of_leaves:
      launch_sums(come, subtrees_of(call_), stream);
      break;
    case Step::mean:
      launch_mean(come, subtrees_of(call_), call_.out().mean, stream);
      break;
    case Step::anchor:
      launch_anchor(come, call_.recipe().anchor, call_.out().mean, stream);
      break;
    case Step::squares:
      rows.exponent = {};
      launch_squares(rows, subtrees_of(call_), stream);
      break;
    case Step::exponents:
      rows.exponent = {};
      launch_exponents(rows, subtrees_of(call_), call_.out().channel_exponent,
                       scales_follow_ ? sequence_scaling() : SequenceScaling{}, stream);
      break;
    case Step::amax:
      queue_amax(rows);
      break;
    case Step::first_groups:
      launch_first_groups(call_.operand.sequences, call_.plan.scales.tokens,
                          call_.at<std::int64_t>(call_.plan.first_group), stream);
      break;
    case Step::scales:
      launch_scales({call_.rows.order, call_.plan.scales, static_cast<int>(call_.plan.channel_groups),
                     call_.at<std::uint32_t>(call_.plan.amax), call_.at<float>(call_.plan.rscale),
                     call_.out().scales, call_.at<std::int64_t>(call_.plan.first_group), begin},
                    making_, stream);
      break;
    case Step::codes:
      launch_encode(rows, full_coding(), stream);
      break;
  }
}

bool OperandSteps::can_share_with(const OperandSteps& other) const {
  return is_at(Step::one_pass) && (other.is_at(Step::one_pass) || other.is_at(Step::clear_one_pass)) &&
         share_one_pass(one_pass(), other.one_pass());
}

bool OperandSteps::queue_shared(OperandSteps& other) {
  if (other.is_at(Step::clear_one_pass)) other.queue(Begin::after_all);
  const OnePassOperand operands[] = {one_pass(), other.one_pass()};
  ++next_, ++other.next_;
  if (launch_one_pass(operands, call_.stream)) {
    note_packed(), other.note_packed();
    return true;
  }
  add_single_steps(), other.add_single_steps();
  return false;
}

OnePassOperand OperandSteps::one_pass() const {
  return {rows_of_one_pass(), coding_of_one_pass(), call_.at<void>(call_.plan.one_pass)};
}

void OperandSteps::note_packed() const {
  if (coding_of_one_pass().packed.data) *call_.operand.is_packed = true;
}

SequenceScaling OperandSteps::sequence_scaling() const {
  return {making_, call_.plan.scales, static_cast<int>(call_.plan.channel_groups),
          call_.at<float>(call_.plan.rscale), call_.out().scales};
}

/// Groups of several kinds are measured beside each other.
void OperandSteps::queue_amax(RowReading rows) {
  const ScratchPlan& plan = call_.plan;
  const auto measure = [&](std::int64_t offset, const Groups& groups, std::int64_t channel_groups) {
    const MeasuredRows of{rows, {call_.at<std::uint32_t>(offset), groups, static_cast<int>(channel_groups)}};
    launch_measure({&of, 1}, call_.stream);
    rows.begin = Begin::beside_one;
  };
  if (measures_groups_) measure(plan.amax, plan.scales, plan.channel_groups);
  if (measures_heads_) measure(plan.head_amax, plan.heads, 1);
  if (measures_blocks_) measure(plan.block_amax, plan.blocks, 1);
}

Coding OperandSteps::full_coding() const {
  const ScratchPlan& plan = call_.plan;
  Coding coding = coding_of(call_);
  if (quant::has_scales(call_.recipe().format)) {
    coding.tile = tile_, coding.making = making_;
    coding.groups = tile_ == Tile::floor ? plan.blocks : plan.scales;
    coding.rscale = call_.at<float>(plan.rscale);
    coding.first_group = call_.at<std::int64_t>(plan.first_group);
  }
  const bool is_measured = making_.head_floor.octaves > 0 || making_.block_floor.amax;
  coding.rows_are_there = call_.has_statistic() && !is_measured && coding.scale_of == ScaleOf::token;
  return coding;
}

bool OperandSteps::tries_one_pass(Launches launches) const {
  const quant::OperandRecipe& recipe = call_.recipe();
  const bool is_mean = recipe.smooth == Smooth::mean && recipe.equalise == Equalise::off,
             is_norms = recipe.smooth == Smooth::none && recipe.rotate == Rotate::off &&
                        (recipe.equalise == Equalise::on || scales_sequences(recipe));
  if (!is_mean && !is_norms) return false;
  // The steps of small operands run beside those of others, and read rows from the cache when they read them
  // again (docs/cuda-measurements.md).
  constexpr std::int64_t kSmall = std::int64_t{8} << 20;  // bytes
  const auto& shape = call_.operand.x.shape;
  if (launches == Launches::fewest && 2 * shape[0] * shape[1] * shape[2] * shape[3] <= kSmall) return false;
  return quant::has_scales(recipe.format) && !call_.is_shared() &&
         takes_one_pass(rows_of_one_pass(), coding_of_one_pass());
}

RowReading OperandSteps::rows_of_one_pass() const {
  RowReading rows = transformed_rows();
  rows.confine = Confine::nothing;
  return rows;
}

Coding OperandSteps::coding_of_one_pass() const {
  const quant::OperandRecipe& recipe = call_.recipe();
  Coding coding = coding_of(call_);
  coding.making = {recipe.rule, recipe.largest_code, 0, nullptr, {}, {}};
  coding.making.head_floor.octaves = making_.head_floor.octaves;
  coding.making.block_floor.octaves = making_.block_floor.octaves;
  coding.groups = coding.scale_of == ScaleOf::token ? call_.plan.blocks : call_.plan.scales;
  // A leaf of its rows is a key block then.
  if (call_.operand.packed.key_block == PackedValues::kPlaces) coding.packed = call_.operand.packed;
  return coding;
}

}  // namespace octet::cuda
