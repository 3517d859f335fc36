// Operands of a call: those of short sequences in one launch, the steps of others in turns.
#include "cuda/quant/quantize.h"

#include <algorithm>
#include <vector>

#include "base/try.h"
#include "cuda/quant/encode.cuh"
#include "cuda/quant/held_sequences.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/quant/short_sequences.cuh"
#include "cuda/quant/steps.cuh"
#include "cuda/quant/sums.cuh"
#include "cuda/quant/token_floors.cuh"
#include "cuda/quant/windows.cuh"
#include "quant/check.h"

namespace octet::cuda {
namespace {

/// A call as the kernel of short sequences takes it, if it does.
ShortOperand short_operand(const OperandCall& call) {
  const quant::OperandRecipe& recipe = call.recipe();
  ShortOperand operand{call.rows, coding_of(call)};
  if (recipe.smooth != Smooth::none) operand.rows.shift = call.out().mean;
  operand.has_shift = call.has_shift();
  if (recipe.rotate == Rotate::on) set_rotation(operand.rows, call.operand.x.shape[3], recipe.rotation_seed);
  if (recipe.equalise == Equalise::on) operand.rows.exponent = call.out().channel_exponent;
  operand.rows.confine = confine_of(recipe.format);
  Coding& coding = operand.coding;
  coding.making = {recipe.rule, recipe.largest_code, recipe.shared_amax, call.words.shared_amax, {}, {}};
  const bool is_token = coding.scale_of == ScaleOf::token;
  if (is_token) coding.making.block_floor.octaves = recipe.block_floor_octaves;
  if (is_token || recipe.granularity == Granularity::block)
    coding.making.head_floor.octaves = recipe.head_floor_octaves;
  coding.groups = is_token ? call.plan.blocks : call.plan.scales;
  coding.packed = call.operand.packed, coding.constants = call.operand.constants;
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

/// An operand's next step, with another's if one launch takes both.
void queue_next(OperandSteps& steps, std::span<OperandSteps> operands, Begin begin) {
  const auto other = std::ranges::find_if(operands, [&](OperandSteps& x) { return steps.can_share_with(x); });
  if (other == operands.end() || !steps.queue_shared(*other)) steps.queue(begin);
}

/// All steps of an operand, then those of the next. What a reading of all rows begins with is so still in the
/// cache: 1 token against 32,768 keys 158 instead of 169 us (docs/cuda-measurements.md).
void queue_one_by_one(std::span<OperandSteps> operands) {
  for (const OperandSteps& steps : operands) steps.clear();
  for (OperandSteps& steps : operands)
    while (!steps.are_done()) queue_next(steps, operands, Begin::after_all);
}

/// The first step of each operand, then the second, and so on: those of a turn need nothing of each other.
void queue_in_turns(std::span<OperandSteps> operands) {
  for (const OperandSteps& steps : operands) steps.clear();
  for (bool is_done = false; !is_done;) {
    is_done = true;
    Begin begin = Begin::after_all;
    for (OperandSteps& steps : operands) {
      if (steps.are_done()) continue;
      queue_next(steps, operands, begin);
      begin = Begin::beside_one;
      is_done = false;
    }
  }
}

/// In turns where they stand beside codes that ask for no statistic: Q's, where it has many tokens.
void queue_steps(std::span<const OperandCall> calls, Launches launches) {
  const bool has_plain =
      std::ranges::any_of(calls, [](const OperandCall& call) { return !call.has_statistic(); });
  const Launches of_steps = has_plain ? launches : Launches::one_a_step;
  std::vector<OperandSteps> steps;
  for (const OperandCall& call : calls) steps.emplace_back(call, of_steps);
  if (has_plain)
    queue_in_turns(steps);
  else
    queue_one_by_one(steps);
}

/// An operand all of whose steps one launch may do.
struct Candidate {
  OperandCall call;
  ShortOperand operand;
  /// By launch_short_sequences(), whole or in parts, by launch_held_sequences(), by launch_windows().
  bool is_short, has_parts, is_held, is_window;

  /// Asks for no statistic and for no floors of others before it.
  bool is_plain() const { return !call.has_statistic() && !call.operand.floors.largest; }
};

/// Launches a call's operands as windows, or as sequences that blocks of threads hold, where all are such and
/// that is the faster way. Whether it is.
bool launch_as_one_kind(std::span<const Candidate> candidates, void* stream) {
  if (candidates.empty() || candidates.size() > kMostTogether) return false;
  ShortOperand memory[kMostTogether];
  std::size_t count = 0;
  for (const Candidate& x : candidates) memory[count++] = x.operand;
  const std::span operands(memory, count);
  if (std::ranges::all_of(candidates, &Candidate::is_window) && should_launch_windows(operands)) {
    launch_windows(operands, stream);
    return true;
  }
  if (!std::ranges::all_of(candidates, &Candidate::is_held) || !should_hold(operands)) return false;
  launch_held_sequences(operands, stream);
  for (std::size_t i = 0; i < count; ++i) {
    const PlainOperand& of = candidates[i].call.operand;
    if (operands[i].coding.packed.data) *of.is_packed = true;
    if (operands[i].coding.constants.data) *of.has_constants = true;
  }
  return true;
}

/// Whether one launch is the faster way for operands of which some are parts of long sequences: of as many
/// tokens each, for all sequences are cut in as many parts, and of few elements (H200, int8_half's Q and K,
/// us of a call: 32 over 8 x 1024 x 128 38.7 instead of 41.7, 4 x 32 x 512 x 64 51.4 instead of 49.7).
bool should_share_parts(std::span<const Candidate* const> all) {
  constexpr std::int64_t kMostElements = 40 * 1024;  // of a processor
  if (all.size() < 2) return false;                  // a launch either way
  std::int64_t elements = 0;
  for (const Candidate* x : all) {
    const TensorView& rows = x->operand.rows.x;
    if (rows.shape[2] != all[0]->operand.rows.x.shape[2]) return false;
    elements += units_of(x->operand.rows) * rows.shape[2] * rows.shape[3];
  }
  return elements <= kMostElements * processors();
}

/// Those of the candidates that are short sequences, or parts of others; the others join the calls that have
/// steps. Where there are such that ask for no statistic, all that do not either join them: they run beside
/// each other, for one launch less (16 tokens against 8,192 keys 48.1 instead of 50.0 us, H200).
std::vector<const Candidate*> of_one_launch_after(std::vector<OperandCall>& in_steps,
                                                  std::span<const Candidate> candidates) {
  std::vector<const Candidate*> left;
  for (const Candidate& x : candidates) left.push_back(&x);
  const auto join = [&](const auto& joins) {
    std::erase_if(left, [&](const Candidate* x) {
      if (joins(*x)) in_steps.push_back(x->call);
      return joins(*x);
    });
  };
  join([](const Candidate& x) { return !x.is_short && !x.has_parts; });
  const bool are_short = std::ranges::all_of(left, &Candidate::is_short);
  if (!are_short && (!in_steps.empty() || !should_share_parts(left)))
    join([](const Candidate& x) { return !x.is_short; });
  const bool have_statistic = std::ranges::any_of(in_steps, &OperandCall::has_statistic);
  if (!in_steps.empty() && !have_statistic) join([](const Candidate& x) { return x.is_plain(); });
  return left;
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

Result<bool> as_short_operand(const PlainOperand& of, ShortOperand& out) {
  OCTET_TRY(quant::check_quantize(of.x, of.sequences, of.recipe, of.out));
  const ScratchPlan plan(of.x.shape, of.recipe, of.sequences.cu_seqlens ? of.sequences.count : 0);
  OCTET_TRY(check_size(of.x, plan.channels, &plan));
  if (of.x.shape[2] == 0 || of.floors.largest || of.recipe.smooth == Smooth::anchor) return false;
  const DeviceWords words;
  out = short_operand({of, words, plan, nullptr, nullptr, reading_of(of.x, of.sequences, plan.channels)});
  return true;
}

Status quantize(std::span<const PlainOperand> operands, void* scratch, void* stream, const DeviceWords& words,
                Launches launches) {
  std::vector<Candidate> candidates;
  candidates.reserve(operands.size());
  std::vector<OperandCall> in_steps;
  auto* own = static_cast<unsigned char*>(scratch);
  for (const PlainOperand& of : operands) {
    OCTET_TRY(quant::check_quantize(of.x, of.sequences, of.recipe, of.out));
    if (of.is_packed) *of.is_packed = false;
    if (of.has_constants) *of.has_constants = false;
    if (of.x.shape[2] == 0) continue;
    const ScratchPlan plan(of.x.shape, of.recipe, of.sequences.cu_seqlens ? of.sequences.count : 0);
    OCTET_TRY(check_size(of.x, plan.channels, &plan));
    if (plan.bytes > 0 && !scratch)
      return invalid_argument("scratch is null; give quantize_scratch_bytes() bytes of device memory");
    const OperandCall call{of, words, plan, own, stream, reading_of(of.x, of.sequences, plan.channels)};
    own += plan.bytes;
    if (launches == Launches::fewest && (of.recipe.smooth != Smooth::anchor || call.has_shift())) {
      const ShortOperand operand = short_operand(call);
      const bool has_floors = of.floors.largest;
      const Candidate of_one_launch{call,
                                    operand,
                                    takes_short_sequences(operand),
                                    takes_parts_of_sequences(operand),
                                    !has_floors && can_hold(operand),
                                    !has_floors && is_of_windows(operand)};
      if (of_one_launch.is_short || of_one_launch.has_parts || of_one_launch.is_held ||
          of_one_launch.is_window) {
        candidates.push_back(of_one_launch);
        continue;
      }
    }
    in_steps.push_back(call);
  }
  if (in_steps.empty() && launch_as_one_kind(candidates, stream)) candidates.clear();
  Together together(scratch, stream);
  for (const Candidate* x : of_one_launch_after(in_steps, candidates))
    together.add(x->operand, x->call.operand);
  queue_steps(in_steps, launches);
  for (const OperandCall& call : in_steps)
    if (call.operand.floors.largest) raise_scales(call.operand, stream);
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
