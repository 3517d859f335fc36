// The steps of one operand, queued one after the other.
#include "cuda/quant/quantize.h"

#include "base/try.h"
#include "cuda/quant/encode.cuh"
#include "cuda/quant/encode_tokens.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/one_pass.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/quant/short_sequences.cuh"
#include "cuda/quant/sums.cuh"
#include "cuda/quant/token_floors.cuh"
#include "quant/check.h"
#include "quant/codes.h"

namespace octet::cuda {
namespace {

/// One call.
struct Call {
  const TensorView& x;
  const Sequences& sequences;
  const quant::OperandRecipe& recipe;
  const QuantizedTensor& out;
  const DeviceWords& words;
  ScratchPlan plan;
  unsigned char* scratch;
  void* stream;
  RowReading rows;

  template <class T>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
  bool is_shared() const { return words.shared_amax || recipe.shared_amax > 0; }
  /// Whether what K is shifted by is where it goes already.
  bool has_shift() const {
    return recipe.smooth == Smooth::anchor && recipe.anchor.data && recipe.anchor.data == out.mean.data &&
           recipe.anchor.shape == out.mean.shape;
  }
};

Subtrees subtrees_of(const Call& call) {
  const ScratchPlan& plan = call.plan;
  return {plan.subtrees, plan.subtree_leaves_log2, plan.channels, call.at<float>(plan.subtree_sum),
          call.at<std::uint32_t>(plan.subtree_range)};
}

/// The shift of every sequence, which the rows have from then on.
void smooth(Call& call) {
  if (call.recipe.smooth == Smooth::none) return;
  if (call.recipe.smooth == Smooth::mean)
    launch_mean(call.rows, subtrees_of(call), call.out.mean, call.stream);
  else if (!call.has_shift())
    launch_anchor(call.rows, call.recipe.anchor, call.out.mean, call.stream);
  call.rows.shift = call.out.mean;
}

void equalise(Call& call) {
  if (call.recipe.equalise == Equalise::off) return;
  launch_exponents(call.rows, subtrees_of(call), call.out.channel_exponent, call.stream);
  call.rows.exponent = call.out.channel_exponent;
}

/// The most tokens of a group that one block of threads looks at twice while they are in the cache; groups of
/// more are measured by all blocks.
constexpr std::int64_t kMostOfTile = 1024;

/// Measures the groups that scales and floors are made of, but for those that are tiles.
ScaleMaking measure(const Call& call, Tile tile) {
  const quant::OperandRecipe& recipe = call.recipe;
  const ScratchPlan& plan = call.plan;
  ScaleMaking making{recipe.rule, recipe.largest_code, recipe.shared_amax, call.words.shared_amax, {}, {}};
  const bool is_token = recipe.granularity == Granularity::token;
  // Blocks have the head's floor only; coarser groups are their own reference.
  if (is_token || recipe.granularity == Granularity::block)
    making.head_floor = {call.at<std::uint32_t>(plan.head_amax), plan.heads, recipe.head_floor_octaves};
  if (is_token)
    making.block_floor = {tile == Tile::floor ? nullptr : call.at<std::uint32_t>(plan.block_amax),
                          plan.blocks, recipe.block_floor_octaves};
  if (call.is_shared()) return making;

  const bool of_groups = !is_token && tile != Tile::scale, of_heads = making.head_floor.octaves > 0,
             of_blocks = making.block_floor.octaves > 0 && tile != Tile::floor;
  if (of_groups || of_heads || of_blocks)
    cudaMemsetAsync(call.at<void>(plan.amax), 0, static_cast<std::size_t>(plan.amax_end - plan.amax),
                    stream_of(call.stream));
  const auto measured = [&](std::int64_t offset, const Groups& groups, std::int64_t channel_groups) {
    const MeasuredRows of{call.rows,
                          {call.at<std::uint32_t>(offset), groups, static_cast<int>(channel_groups)}};
    launch_measure({&of, 1}, call.stream);
  };
  if (of_groups) measured(plan.amax, plan.scales, plan.channel_groups);
  if (of_heads) measured(plan.head_amax, plan.heads, 1);
  if (of_blocks) measured(plan.block_amax, plan.blocks, 1);
  return making;
}

void write_scales(const Call& call, const ScaleMaking& making) {
  const ScratchPlan& plan = call.plan;
  launch_scales(
      {call.rows.order, plan.scales, static_cast<int>(plan.channel_groups), call.at<std::uint32_t>(plan.amax),
       call.at<float>(plan.rscale), call.out.scales, call.at<std::int64_t>(plan.first_group)},
      making, call.stream);
}

Confine confine_of(DType format) {
  if (quant::is_integer(format)) return Confine::row;
  return format == DType::e4m3 ? Confine::infinity : Confine::nothing;
}

Tile tile_of(const Call& call) {
  const quant::OperandRecipe& recipe = call.recipe;
  if (recipe.granularity == Granularity::block && call.plan.scales.tokens <= kMostOfTile) return Tile::scale;
  const bool has_floor = recipe.granularity == Granularity::token && recipe.block_floor_octaves > 0;
  return has_floor && call.plan.blocks.tokens <= kMostOfTile ? Tile::floor : Tile::none;
}

/// What of the coding the recipe says.
Coding coding_of(const Call& call) {
  const quant::OperandRecipe& recipe = call.recipe;
  Coding coding;
  coding.codes = call.out.codes;
  coding.in_vectors = codes_in_vectors(call.out.codes);
  coding.non_finite = call.words.non_finite;
  if (!quant::has_scales(recipe.format)) return coding;
  coding.scales = call.out.scales;
  coding.clamps = call.is_shared() || recipe.largest_code > 127 || call.plan.channel_groups > 1;
  coding.scale_of = recipe.granularity == Granularity::token ? ScaleOf::token : ScaleOf::group;
  coding.channel_groups = static_cast<int>(call.plan.channel_groups);
  return coding;
}

void encode(const Call& call) {
  const quant::OperandRecipe& recipe = call.recipe;
  const ScratchPlan& plan = call.plan;
  Coding coding = coding_of(call);
  if (quant::has_scales(recipe.format)) {
    coding.tile = tile_of(call);
    coding.making = measure(call, coding.tile);
    coding.groups = coding.tile == Tile::floor ? plan.blocks : plan.scales;
    coding.rscale = call.at<float>(plan.rscale);
    coding.first_group = call.at<std::int64_t>(plan.first_group);
    if (coding.scale_of == ScaleOf::group) {
      if (call.sequences.cu_seqlens && call.out.tokens_per_scale > 0)
        launch_first_groups(call.sequences, plan.scales.tokens, call.at<std::int64_t>(plan.first_group),
                            call.stream);
      if (coding.tile == Tile::none) write_scales(call, coding.making);
    }
  }
  const bool has_statistics = recipe.smooth != Smooth::none || recipe.equalise == Equalise::on;
  const bool is_measured = coding.making.head_floor.octaves > 0 || coding.making.block_floor.amax;
  coding.rows_are_there = has_statistics && !is_measured && coding.scale_of == ScaleOf::token;
  launch_encode(call.rows, coding, call.stream);
}

/// The statistic and the codes that follow from it from one reading, where there is a kernel for that.
bool quantize_in_one_pass(const Call& call) {
  const quant::OperandRecipe& recipe = call.recipe;
  const bool is_mean = recipe.smooth == Smooth::mean && recipe.equalise == Equalise::off,
             is_norms = recipe.smooth == Smooth::none && recipe.equalise == Equalise::on;
  if (!is_mean && !is_norms) return false;
  RowReading rows = call.rows;
  if (recipe.rotate == Rotate::on) set_rotation(rows, call.x.shape[3], recipe.rotation_seed);
  if (is_mean)
    rows.shift = call.out.mean;
  else
    rows.exponent = call.out.channel_exponent;
  Coding coding = coding_of(call);
  coding.making = {recipe.rule, recipe.largest_code, 0, nullptr, {}, {}};
  coding.making.block_floor.octaves = recipe.block_floor_octaves;
  coding.making.head_floor.octaves = recipe.head_floor_octaves;
  coding.groups = call.plan.blocks;
  return takes_tokens(rows, coding) && takes_one_pass(rows, coding) &&
         launch_one_pass(rows, coding, call.at<void>(call.plan.one_pass), call.stream);
}

/// The steps of a call one after the other.
void quantize_in_steps(Call& call) {
  if (quantize_in_one_pass(call)) return;
  smooth(call);
  if (call.recipe.rotate == Rotate::on) set_rotation(call.rows, call.x.shape[3], call.recipe.rotation_seed);
  call.rows.confine = confine_of(call.recipe.format);
  equalise(call);
  encode(call);
}

/// A call as the kernel of short sequences takes it, if takes_short_sequences() says so.
ShortOperand short_operand(const Call& call) {
  const quant::OperandRecipe& recipe = call.recipe;
  ShortOperand operand{call.rows, coding_of(call)};
  if (recipe.smooth != Smooth::none) operand.rows.shift = call.out.mean;
  operand.has_shift = call.has_shift();
  if (recipe.rotate == Rotate::on) set_rotation(operand.rows, call.x.shape[3], recipe.rotation_seed);
  if (recipe.equalise == Equalise::on) operand.rows.exponent = call.out.channel_exponent;
  operand.rows.confine = confine_of(recipe.format);
  Coding& coding = operand.coding;
  coding.making = {recipe.rule, recipe.largest_code, recipe.shared_amax, call.words.shared_amax, {}, {}};
  const bool is_token = coding.scale_of == ScaleOf::token;
  if (is_token) coding.making.block_floor.octaves = recipe.block_floor_octaves;
  if (is_token || recipe.granularity == Granularity::block)
    coding.making.head_floor.octaves = recipe.head_floor_octaves;
  coding.groups = is_token ? call.plan.blocks : call.plan.scales;
  return operand;
}

/// Operands of short sequences. Those of which all tokens share a scale are measured before, all at once,
/// into words of scratch memory.
void quantize_together(std::span<ShortOperand> operands, std::uint32_t* words, void* stream) {
  MeasuredRows measured[kMostTogether];
  std::size_t count = 0;
  for (ShortOperand& x : operands) {
    ScaleMaking& making = x.coding.making;
    if (!x.coding.groups.is_one || making.is_shared()) continue;
    measured[count] = {x.rows, {words + count, Groups::all_in_one(), 1}};
    making.device_shared_amax = reinterpret_cast<const float*>(words + count++);
  }
  if (count > 0) {
    cudaMemsetAsync(words, 0, count * sizeof *words, stream_of(stream));
    launch_measure({measured, count}, stream);
  }
  launch_short_sequences(operands, stream);
}

/// The floors, if any, of an operand whose scales have been made without.
void raise_scales(const PlainOperand& x, void* stream) {
  if (!x.floors.largest) return;
  TokenFloors of;
  of.rows = reading_of(x.x, x.sequences, x.x.shape[3]);
  of.rows.confine = confine_of(x.recipe.format);
  of.coding.codes = x.out.codes, of.coding.scales = x.out.scales;
  of.coding.in_vectors = codes_in_vectors(x.out.codes);
  of.coding.clamps = true;
  of.coding.making.rule = x.recipe.rule, of.coding.making.largest_code = x.recipe.largest_code;
  of.floors = x.floors;
  launch_token_floors(of, stream);
}

/// Operands of short sequences, until they are launched together.
class Together {
 public:
  Together(void* scratch, void* stream)
      : words_(static_cast<std::uint32_t*>(scratch)),  // where ScratchPlan has them
        stream_(stream) {}

  /// A token by itself finds its floor there.
  void add(ShortOperand operand, const PlainOperand& of) {
    if (count_ == kMostTogether) launch();
    if (of.x.shape[2] == 1) operand.floors = of.floors;
    of_[count_] = &of, operands_[count_++] = operand;
  }
  void launch() {
    if (count_ == 0) return;
    quantize_together({operands_, count_}, words_, stream_);
    for (std::size_t i = 0; i < count_; ++i)
      if (!operands_[i].floors.largest) raise_scales(*of_[i], stream_);
    count_ = 0;
  }

 private:
  ShortOperand operands_[kMostTogether];
  const PlainOperand* of_[kMostTogether] = {};
  std::size_t count_ = 0;
  std::uint32_t* words_;
  void* stream_;
};

}  // namespace

std::int64_t quantize_scratch_bytes(const std::array<std::int64_t, 4>& shape,
                                    const quant::OperandRecipe& recipe, std::int64_t packed_sequences) {
  return ScratchPlan(shape, recipe, packed_sequences).bytes;
}

Status quantize(std::span<const PlainOperand> operands, void* scratch, void* stream, const DeviceWords& words,
                Launches launches) {
  Together together(scratch, stream);
  for (const PlainOperand& of : operands) {
    OCTET_TRY(quant::check_quantize(of.x, of.sequences, of.recipe, of.out));
    if (of.x.shape[2] == 0) continue;
    const ScratchPlan plan(of.x.shape, of.recipe, of.sequences.cu_seqlens ? of.sequences.count : 0);
    OCTET_TRY(check_size(of.x, plan.channels, &plan));
    if (plan.bytes > 0 && !scratch)
      return invalid_argument("scratch is null; give quantize_scratch_bytes() bytes of device memory");
    Call call{of.x,
              of.sequences,
              of.recipe,
              of.out,
              words,
              plan,
              static_cast<unsigned char*>(scratch),
              stream,
              reading_of(of.x, of.sequences, plan.channels)};
    if (launches == Launches::fewest && (of.recipe.smooth != Smooth::anchor || call.has_shift())) {
      const ShortOperand operand = short_operand(call);
      if (takes_short_sequences(operand)) {
        together.add(operand, of);
        continue;
      }
    }
    quantize_in_steps(call);
    raise_scales(of, stream);
  }
  together.launch();
  return launch_status("the quantiser");
}

Status quantize(const TensorView& x, const Sequences& sequences, const quant::OperandRecipe& recipe,
                const QuantizedTensor& out, void* scratch, void* stream, const DeviceWords& words) {
  const PlainOperand operand{x, sequences, recipe, out};
  return quantize({&operand, 1}, scratch, stream, words, Launches::one_a_step);
}

Status put_anchor(const TensorView& anchor, const TensorView& mean, void* stream) {
  launch_anchor(reading_of(mean, {mean.shape[0], mean.shape[2], nullptr}, mean.shape[3]), anchor, mean,
                stream);
  return launch_status("the quantiser");
}

}  // namespace octet::cuda
