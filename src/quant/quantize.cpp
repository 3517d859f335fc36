// A plain tensor to codes: the units of work, what is found before their rows become codes, and what they
// report.
#include "quant/quantize.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/scratch.h"
#include "base/shifted.h"
#include "base/try.h"
#include "quant/check.h"
#include "quant/codes.h"
#include "quant/encode.h"
#include "quant/equalise.h"

namespace octet::quant {

// What HeadQuantizer holds: named, for a type of a header has them as members.
namespace heads {

// What units report: the first bad element of each, and whether memory ran out.
struct Findings {
  std::vector<BadElement> bad;
  std::atomic<bool> out_of_memory{false};
};

}  // namespace heads

namespace {

using heads::Findings;

TokenRange range_of(const Job& job, std::int64_t index) {
  const std::int64_t s = index / job.heads(), h = index % job.heads();
  return {job.sequences.batch(s), h, job.sequences.begin(s), job.sequences.length(s)};
}

// A unit that is worth asking for while the one before it becomes codes: a statistic reads it before its own
// codes are made. The statistic waits for memory, the codes come from the second-level cache and leave memory
// idle.
// note: what is read once (Q) asks for its own rows ahead, where the processor gains by it (transform.cpp).
Tokens ahead_of(const Job& job, std::int64_t index) {
  constexpr std::int64_t kMostBytes = 512 * 1024;  // of a unit: two fill the second-level cache
  if (!reads_twice(job.recipe) || index >= job.units()) return {};
  const TokenRange range = range_of(job, index);
  const std::int64_t bytes = range.length * job.x.shape[3] * bytes_of_number(job.x.dtype);
  return bytes > kMostBytes ? Tokens{} : Tokens{&job.x, range};
}

// Row of a [batch, head, sequence or 1, dim] tensor (mean, channel_exponent) that belongs to a unit.
template <class T>
T* unit_row(const Job& job, const Unit& unit, const TensorView& x) {
  const TokenRange& range = unit.rows.range();
  return element<T>(x, range.b, range.h, job.sequences.cu_seqlens ? unit.sequence : 0);
}

// Finds the shift, writes it to out.mean.
void smooth(const Job& job, Unit& unit) {
  if (job.recipe.smooth == Smooth::none) return;
  float* mean = unit_row<float>(job, unit, job.out.mean);
  if (job.recipe.smooth == Smooth::mean) {
    token_mean(job.x, unit.rows.range(), mean);
  } else {
    anchor_shift(job.x, unit.rows.range(), job.recipe.anchor, mean);
  }
  unit.rows.set_shift(mean);
}

/// Whether rows are read as they are, or with NaN and Inf confined to what they spoil.
enum class View { unchecked, confined };

FloatRows view(RowReader& rows, View how, std::int64_t first, std::int64_t count) {
  if (how == View::unchecked) return rows.look(first, count);
  rows.read(first, count);
  return rows.rows();
}

// Exponents of the channels; false where rows read unchecked hold NaN or Inf.
bool find_exponents(RowReader& rows, View how, std::int32_t* exponent) {
  constexpr std::int64_t kRows = 64;  // of 64 channels fit the first-level cache
  const std::int64_t length = rows.range().length;
  ChannelNorms norms(rows.channels(), length, thread_scratch());  // whose reset is the reader's
  if (how == View::unchecked) {
    for_tokens(rows, 0, length, kRows, [&](std::int64_t first, std::int64_t count) {
      norms.see(rows.is_plain() ? rows.stored(first, count) : rows.look(first, count));
    });
    if (norms.exponents_at_once(exponent)) return true;
  }
  bool finite = true;
  for_tokens(rows, 0, length, kRows, [&](std::int64_t first, std::int64_t count) {
    finite &= norms.measure(view(rows, how, first, count));
  });
  if (!finite && how == View::unchecked) return false;
  norms.begin_squares();
  for_tokens(rows, 0, length, kRows,
             [&](std::int64_t first, std::int64_t count) { norms.square(view(rows, how, first, count)); });
  norms.exponents(exponent);
  return true;
}

// Finds the exponents of the shifted and rotated channels, writes them to out.channel_exponent.
void equalise(const Job& job, Unit& unit) {
  if (job.recipe.equalise == Equalise::off) return;
  auto* exponent = unit_row<std::int32_t>(job, unit, job.out.channel_exponent);
  if (!find_exponents(unit.rows, View::unchecked, exponent))
    find_exponents(unit.rows, View::confined, exponent);
  unit.rows.set_exponents(exponent);
}

template <class Body>
void run_unit(const Job& job, std::int64_t index, const Tokens& next, Findings& findings, Body&& body) {
  try {
    Unit unit(job, index / job.heads(), range_of(job, index));
    smooth(job, unit);
    equalise(job, unit);
    unit.rows.set_next(next);
    body(index, unit);
    findings.bad[static_cast<std::size_t>(index)] = unit.rows.bad();
  } catch (const std::bad_alloc&) {
    findings.out_of_memory = true;
  }
}

template <class Body>
void for_each_unit(const Job& job, const ParallelFor& parallel_for, Findings& findings, Body&& body) {
  for_each_parallel(parallel_for, job.units(),
                    [&](std::int64_t i) { run_unit(job, i, ahead_of(job, i + 1), findings, body); });
}

// The one scale of the whole tensor, stored.
Scale tensor_scale(const Job& job, const ParallelFor& parallel_for, Findings& findings) {
  float amax = job.recipe.shared_amax;
  if (amax == 0) {
    std::vector<float> unit_amax(static_cast<std::size_t>(job.units()));
    for_each_unit(job, parallel_for, findings, [&](std::int64_t i, Unit& unit) {
      measure(job, unit.rows, 0, unit.rows.range().length, {&unit_amax[static_cast<std::size_t>(i)], 1});
    });
    for (const float a : unit_amax) amax = std::max(amax, a);
  }
  const Scale scale = group_scale(amax, 0, job.recipe.rule, job.recipe.largest_code);
  *static_cast<float*>(job.out.scales.data) = scale.scale;
  return scale;
}

Status report(const Job& job, const Findings& findings) {
  if (findings.out_of_memory) {
    return {Code::out_of_memory, "no memory for the quantiser's scratch of a few rows a thread; free some"};
  }
  for (std::size_t i = 0; i < findings.bad.size(); ++i) {
    const BadElement& bad = findings.bad[i];
    if (bad.token < 0) continue;
    const auto unit = static_cast<std::int64_t>(i);
    const std::string place = "element (batch " + std::to_string(job.sequences.batch(unit / job.heads())) +
                              ", head " + std::to_string(unit % job.heads()) + ", token " +
                              std::to_string(bad.token) + ", channel " + std::to_string(bad.channel) +
                              ") is " + std::to_string(bad.value);
    if (is_finite(bad.value)) {
      return {Code::non_finite, place +
                                    " and leaves the range of f32 when it is smoothed or rotated, which need "
                                    "|x| <= 2^120; scale the operand down or switch both off"};
    }
    return {
        Code::non_finite,
        place + ", but integer codes need finite values; mend the input or choose a floating-point scheme"};
  }
  return {};
}

}  // namespace

struct HeadQuantizer::State {
  State(const TensorView& x, const Sequences& sequences, const OperandRecipe& recipe,
        const QuantizedTensor& out)
      : refusal(check_quantize(x, sequences, recipe, out)),
        rotation(recipe.rotate == Rotate::on ? x.shape[3] : 0, recipe.rotation_seed),
        job{x, sequences, recipe, out, rotation} {
    findings.bad.resize(static_cast<std::size_t>(job.units()));
  }

  const Status refusal;
  const Rotation rotation;
  const Job job;
  Findings findings;
};

HeadQuantizer::HeadQuantizer(const TensorView& x, const Sequences& sequences, const OperandRecipe& recipe,
                             const QuantizedTensor& out)
    : state_(std::make_unique<State>(x, sequences, recipe, out)) {}

HeadQuantizer::~HeadQuantizer() = default;

bool HeadQuantizer::packs(const PackedCodes& packed) const {
  const Job& job = state_->job;
  return job.recipe.format == DType::s8 && job.out.channels_per_scale == 0 &&
         leaves_nothing_to_clamp(job.recipe) && packed.tokens == row_kernels().packed.tokens &&
         job.out.codes.shape[3] % packed.tokens == 0;
}

Tokens HeadQuantizer::ahead(std::int64_t sequence, std::int64_t head) const {
  return ahead_of(state_->job, sequence * state_->job.heads() + head);
}

void HeadQuantizer::run(std::int64_t sequence, std::int64_t head, const Place& place, const Tokens& next) {
  const Job& job = state_->job;
  if (!state_->refusal.ok() || job.x.shape[2] == 0) return;
  run_unit(job, sequence * job.heads() + head, next, state_->findings, [&](std::int64_t, Unit& unit) {
    unit.codes = shifted(job.out.codes, place.shift);
    unit.packed = place.packed;
    encode(job, unit, nullptr);
  });
}

Status HeadQuantizer::status() const {
  return state_->refusal.ok() ? report(state_->job, state_->findings) : state_->refusal;
}

Status quantize(const TensorView& x, const Sequences& sequences, const OperandRecipe& recipe,
                const QuantizedTensor& out, const ParallelFor& parallel_for) {
  OCTET_TRY(check_quantize(x, sequences, recipe, out));
  if (x.shape[2] == 0) return {};
  try {
    const std::int64_t heads = x.shape[1], units = sequences.count * heads;
    if (recipe.granularity != Granularity::tensor || !has_scales(recipe.format)) {
      HeadQuantizer units_of_their_own(x, sequences, recipe, out);
      for_each_parallel(parallel_for, units, [&](std::int64_t i) {
        units_of_their_own.run(i / heads, i % heads, {}, units_of_their_own.ahead(i / heads, i % heads + 1));
      });
      return units_of_their_own.status();
    }
    const Rotation rotation(recipe.rotate == Rotate::on ? x.shape[3] : 0, recipe.rotation_seed);
    const Job job{x, sequences, recipe, out, rotation};
    Findings findings;
    findings.bad.resize(static_cast<std::size_t>(units));
    const Scale shared = tensor_scale(job, parallel_for, findings);
    for_each_unit(job, parallel_for, findings, [&](std::int64_t, Unit& unit) { encode(job, unit, &shared); });
    return report(job, findings);
  } catch (const std::bad_alloc&) {
    return {Code::out_of_memory, "no memory for the quantiser's list of sequences and heads; free some"};
  }
}

}  // namespace octet::quant
