// A plain tensor to codes: one unit of work is one sequence of one head, and no unit looks at another, except
// through the one scale of Granularity::tensor.
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
#include "quant/equalise.h"
#include "quant/rows.h"
#include "quant/scales.h"
#include "quant/transform.h"

namespace octet::quant {

// What HeadQuantizer holds: named, for a type of a header has them as members.
namespace heads {

struct Job {
  const TensorView& x;
  const Sequences& sequences;
  const OperandRecipe& recipe;
  const QuantizedTensor& out;
  const Rotation& rotation;

  std::int64_t heads() const { return x.shape[1]; }
  std::int64_t units() const { return sequences.count * heads(); }
};

// What units report: the first bad element of each, and whether memory ran out.
struct Findings {
  std::vector<BadElement> bad;
  std::atomic<bool> out_of_memory{false};
};

}  // namespace heads

namespace {

using heads::Findings;
using heads::Job;

struct Unit {
  std::int64_t sequence;
  TensorView codes;  // where its own go
  RowReader rows;
};

TokenRange range_of(const Job& job, std::int64_t index) {
  const std::int64_t s = index / job.heads(), h = index % job.heads();
  return {job.sequences.batch(s), h, job.sequences.begin(s), job.sequences.length(s)};
}

// What is asked for while a unit becomes codes: the next unit, where a statistic reads each before its codes
// are made. The statistic waits for memory, the codes come from the second-level cache and leave memory idle.
// note: nothing is gained for what is read once (Q): on a quiet Zen 4 rows asked for 16 KiB ahead cost 5 to
// 25 %.
TokenRange next_of(const Job& job, std::int64_t index) {
  constexpr std::int64_t kMostBytes = 512 * 1024;  // of a unit: two fill the second-level cache
  const bool reads_twice = job.recipe.smooth == Smooth::mean || job.recipe.equalise == Equalise::on;
  const TokenRange range = range_of(job, index);
  const std::int64_t bytes = range.length * job.x.shape[3] * (job.x.dtype == DType::f32 ? 4 : 2);
  if (!reads_twice || bytes > kMostBytes || index + 1 == job.units()) return {};
  return range_of(job, index + 1);
}

Unit make_unit(const Job& job, std::int64_t index) {
  return {index / job.heads(), job.out.codes,
          RowReader(job.x, range_of(job, index), job.recipe, job.rotation)};
}

template <class T>
T* element(const TensorView& x, std::int64_t b, std::int64_t h, std::int64_t t) {
  return static_cast<T*>(x.data) + row_offset(x, b, h, t);
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

// body(first, count) for tokens [begin, end), as many at once as `step` and the reader take.
template <class Body>
void for_tokens(const RowReader& rows, std::int64_t begin, std::int64_t end, std::int64_t step, Body&& body) {
  step = std::min(step, rows.capacity());
  for (std::int64_t t = begin; t < end; t += step) body(t, std::min(step, end - t));
}

// Exponents of the channels; false where rows read unchecked hold NaN or Inf.
bool find_exponents(RowReader& rows, View how, std::int32_t* exponent) {
  constexpr std::int64_t kRows = 64;  // of 64 channels fit the first-level cache
  const std::int64_t length = rows.range().length;
  ChannelNorms norms(rows.channels());
  if (how == View::unchecked) {
    for_tokens(rows, 0, length, kRows,
               [&](std::int64_t first, std::int64_t count) { norms.see(rows.look(first, count)); });
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

// Scale groups of one unit: along tokens, and whether each channel has its own.
struct Groups {
  std::int64_t tokens;  // a group, 0: all
  std::int64_t length;  // of the sequence
  std::int64_t channels;

  std::int64_t count() const { return tokens == 0 ? 1 : (length + tokens - 1) / tokens; }
  std::int64_t begin(std::int64_t g) const { return g * tokens; }
  std::int64_t end(std::int64_t g) const { return tokens == 0 ? length : std::min(length, (g + 1) * tokens); }
};

Groups groups_of(const Job& job, const Unit& unit) {
  return {job.out.tokens_per_scale, unit.rows.range().length,
          job.out.channels_per_scale == 0 ? 1 : unit.rows.channels()};
}

// amax[c] of the finite elements of tokens [begin, end): one value, or one a channel.
void measure(const Job& job, RowReader& rows, std::int64_t begin, std::int64_t end,
             std::vector<float>& amax) {
  std::fill(amax.begin(), amax.end(), job.recipe.shared_amax);
  if (job.recipe.shared_amax > 0) return;
  const bool by_channel = job.out.channels_per_scale > 0;
  std::vector<std::uint32_t> bits(by_channel ? amax.size() : 0);
  for_tokens(rows, begin, end, rows.capacity(), [&](std::int64_t first, std::int64_t count) {
    if (by_channel) {
      rows.read(first, count);
      rows.kernels().channel_largest(rows.rows(), bits.data());
    } else {
      rows.read_factored(first, count);
      amax[0] = std::max(amax[0], rows.peak());
    }
  });
  for (std::size_t c = 0; c < bits.size(); ++c) amax[c] = std::bit_cast<float>(bits[c]);
}

float scale_of(const Job& job, float amax) {
  return group_scale(amax, 0, job.recipe.rule, job.recipe.largest_code).scale;
}

// Codes of tokens [first, first + count); rscale: one a row or, where channels have scales of their own, one
// a channel.
void write_rows(const Job& job, Unit& unit, std::int64_t first, std::int64_t count, const float* rscale) {
  RowReader& rows = unit.rows;
  const TensorView& codes = unit.codes;
  const TokenRange& range = rows.range();
  const bool by_channel = job.out.channels_per_scale > 0;
  // Scales that are made of the largest element leave nothing to clamp.
  const bool is_within = job.recipe.shared_amax == 0 && job.recipe.largest_code <= 127;
  if (codes.dtype == DType::s8 && !by_channel && is_within) {
    auto* to = element<std::int8_t>(codes, range.b, range.h, range.begin + first);
    rows.read_factored(first, count);
    const RowReader::Factored& x = rows.factored();
    return rows.kernels().codes(x.rows, x.factor, rscale, to, codes.stride[2]);
  }
  rows.read(first, count);
  const FloatRows x = rows.rows();
  if (codes.dtype == DType::s8 && by_channel) {
    auto* to = element<std::int8_t>(codes, range.b, range.h, range.begin + first);
    return rows.kernels().codes_by_channel(x, rscale, to, codes.stride[2]);
  }
  std::vector<float> scaled(static_cast<std::size_t>(x.channels));
  for (std::int64_t r = 0; r < x.count; ++r) {
    for (std::size_t c = 0; c < scaled.size(); ++c)
      scaled[c] = x.row(r)[c] * rscale[by_channel ? static_cast<std::int64_t>(c) : r];
    write_codes(codes, range.b, range.h, range.begin + first + r, scaled.data(), x.channels);
  }
}

void convert(Unit& unit) {
  RowReader& rows = unit.rows;
  const TokenRange& range = rows.range();
  for_tokens(rows, 0, range.length, rows.capacity(), [&](std::int64_t first, std::int64_t count) {
    rows.read(first, count);
    for (std::int64_t r = 0; r < count; ++r)
      write_codes(unit.codes, range.b, range.h, range.begin + first + r, rows.row(r), rows.channels());
  });
}

// Codes of tokens [begin, end), whose channels share rscale or have one each.
void write_group(const Job& job, Unit& unit, std::int64_t begin, std::int64_t end,
                 const std::vector<float>& rscale) {
  RowReader& rows = unit.rows;
  const float* of_rows = rscale.data();
  std::vector<float> same;
  if (job.out.channels_per_scale == 0) {
    same.assign(static_cast<std::size_t>(std::min(rows.capacity(), end - begin)), rscale[0]);
    of_rows = same.data();
  }
  for_tokens(rows, begin, end, rows.capacity(),
             [&](std::int64_t first, std::int64_t count) { write_rows(job, unit, first, count, of_rows); });
}

// Tokens [first, end) of a sequence, each with a scale of its own, in the thread's scratch.
struct TokenScales {
  std::int64_t first, end;
  float *amax, *scale, *rscale;

  std::int64_t count() const { return end - first; }
  TokenScales from(std::int64_t token, std::int64_t tokens) const {
    const std::int64_t at = token - first;
    return {token, token + tokens, amax + at, scale + at, rscale + at};
  }
};

// The scales of tokens from their amax, with a floor.
void find_scales(const Job& job, const RowKernels& kernels, float floor, const TokenScales& tokens) {
  const OperandRecipe& recipe = job.recipe;
  if (recipe.rule == ScaleRule::nearest)
    return kernels.nearest_scales(tokens.amax, tokens.count(), floor, recipe.largest_code, tokens.scale,
                                  tokens.rscale);
  if (recipe.rule == ScaleRule::sixteenths &&
      kernels.sixteenth_scales(tokens.amax, tokens.count(), floor, recipe.largest_code, tokens.scale,
                               tokens.rscale))
    return;
  for (std::int64_t i = 0; i < tokens.count(); ++i) {
    const Scale s = group_scale(tokens.amax[i], floor, recipe.rule, recipe.largest_code);
    tokens.scale[i] = s.scale, tokens.rscale[i] = s.rscale;
  }
}

// Tokens that stay in the first-level cache from amax to codes.
std::int64_t tile_tokens(const RowReader& rows) {
  constexpr std::int64_t kFloats = 2048;  // a quarter of that cache, which the input passes through
  return std::max<std::int64_t>(kFloats / rows.channels(), 1);
}

// Scales with a floor, and codes. Returns the largest amax.
float encode_tiles(const Job& job, Unit& unit, float floor, const TokenScales& tokens) {
  RowReader& rows = unit.rows;
  float largest = job.recipe.shared_amax;
  for_tokens(rows, tokens.first, tokens.end, tile_tokens(rows), [&](std::int64_t first, std::int64_t count) {
    const TokenScales tile = tokens.from(first, count);
    if (job.recipe.shared_amax == 0) {
      rows.read_factored(first, count);
      rows.copy_amax(tile.amax);
      largest = std::max(largest, rows.peak());
    } else {
      std::fill_n(tile.amax, count, largest);
    }
    find_scales(job, rows.kernels(), floor, tile);
    write_rows(job, unit, first, count, tile.rscale);
  });
  return largest;
}

// Scales and codes as they are with a higher floor, once its reference is known. Few tokens have smaller
// scales, if any; integers of zeros have the codes already, while an Inf beside zeros is NaN without a scale.
void raise_floor(const Job& job, Unit& unit, float floor, const TokenScales& tokens) {
  RowReader& rows = unit.rows;
  bool any_below = false;
  for (std::int64_t i = 0; i < tokens.count(); ++i) any_below |= tokens.scale[i] < floor;
  if (!any_below) return;
  const bool zeros_stay = is_integer(job.recipe.format);
  const std::vector<float> before(tokens.rscale, tokens.rscale + tokens.count());
  find_scales(job, rows.kernels(), floor, tokens);
  for_tokens(rows, tokens.first, tokens.end, tile_tokens(rows), [&](std::int64_t first, std::int64_t count) {
    const TokenScales tile = tokens.from(first, count);
    const float* was = before.data() + (first - tokens.first);
    bool differs = false;
    for (std::int64_t i = 0; i < count; ++i)
      differs |= (tile.amax[i] > 0 || !zeros_stay) && tile.rscale[i] != was[i];
    if (differs) write_rows(job, unit, first, count, tile.rscale);
  });
}

// Scales and codes where each token has a scale of its own. Where the largest scale of a key block is the
// floor of the others, codes are made before it is known, for it changes hardly ever one of them.
void encode_tokens(const Job& job, Unit& unit) {
  const OperandRecipe& recipe = job.recipe;
  RowReader& rows = unit.rows;
  const std::int64_t length = rows.range().length;
  const std::int64_t step =
      std::min(length, recipe.block_floor_octaves > 0 ? recipe.block : tile_tokens(rows));
  float head_floor = 0;
  if (recipe.head_floor_octaves > 0) {
    std::vector<float> one(1);
    measure(job, rows, 0, length, one);
    head_floor = scale_floor(scale_of(job, one[0]), recipe.head_floor_octaves);
  }
  const TensorView& scales = job.out.scales;
  const std::int64_t first_group = job.sequences.first_group(unit.sequence, 1);
  Scratch& scratch = thread_scratch();  // whose reset is the reader's
  TokenScales tokens{0, 0, scratch.take<float>(step), scratch.take<float>(step), scratch.take<float>(step)};
  for (; tokens.end < length;) {
    tokens.first = tokens.end;
    tokens.end += std::min(step, length - tokens.first);
    const float largest = encode_tiles(job, unit, head_floor, tokens);
    // A larger amax has no smaller scale, so the largest scale is that of the largest amax.
    const float floor = scale_floor(scale_of(job, largest), recipe.block_floor_octaves);
    if (floor > head_floor) raise_floor(job, unit, floor, tokens);
    float* to = element<float>(scales, rows.range().b, rows.range().h, first_group + tokens.first);
    if (scales.stride[2] == 1)
      std::copy_n(tokens.scale, tokens.count(), to);
    else
      for (std::int64_t i = 0; i < tokens.count(); ++i) to[i * scales.stride[2]] = tokens.scale[i];
  }
}

// The floor of every block's scale: a scale of the whole head, or one a channel, is its own reference.
float block_floor(const Job& job, RowReader& rows) {
  if (job.recipe.granularity != Granularity::block || job.recipe.head_floor_octaves == 0) return 0;
  std::vector<float> amax(1);
  measure(job, rows, 0, rows.range().length, amax);
  return scale_floor(scale_of(job, amax[0]), job.recipe.head_floor_octaves);
}

// Scales and codes of one unit. `shared`: the scale of Granularity::tensor, which is stored already.
void encode(const Job& job, Unit& unit, const Scale* shared) {
  RowReader& rows = unit.rows;
  if (!has_scales(job.recipe.format)) return convert(unit);
  if (shared) return write_group(job, unit, 0, rows.range().length, {shared->rscale});
  if (job.recipe.granularity == Granularity::token) return encode_tokens(job, unit);

  const Groups groups = groups_of(job, unit);
  const float floor = block_floor(job, rows);
  const std::int64_t first = job.sequences.first_group(unit.sequence, groups.tokens);
  std::vector<float> amax(static_cast<std::size_t>(groups.channels)), rscale(amax.size());
  for (std::int64_t g = 0; g < groups.count(); ++g) {
    measure(job, rows, groups.begin(g), groups.end(g), amax);
    float* scales = element<float>(job.out.scales, rows.range().b, rows.range().h, first + g);
    for (std::size_t c = 0; c < amax.size(); ++c) {
      const Scale s = group_scale(amax[c], floor, job.recipe.rule, job.recipe.largest_code);
      scales[static_cast<std::int64_t>(c) * job.out.scales.stride[3]] = s.scale;
      rscale[c] = s.rscale;
    }
    write_group(job, unit, groups.begin(g), groups.end(g), rscale);
  }
}

template <class Body>
void run_unit(const Job& job, std::int64_t index, Findings& findings, Body&& body) {
  try {
    Unit unit = make_unit(job, index);
    smooth(job, unit);
    equalise(job, unit);
    unit.rows.set_next(next_of(job, index));
    body(index, unit);
    findings.bad[static_cast<std::size_t>(index)] = unit.rows.bad();
  } catch (const std::bad_alloc&) {
    findings.out_of_memory = true;
  }
}

template <class Body>
void for_each_unit(const Job& job, const ParallelFor& parallel_for, Findings& findings, Body&& body) {
  for_each_parallel(parallel_for, job.units(), [&](std::int64_t i) { run_unit(job, i, findings, body); });
}

// The one scale of the whole tensor, stored.
Scale tensor_scale(const Job& job, const ParallelFor& parallel_for, Findings& findings) {
  float amax = job.recipe.shared_amax;
  if (amax == 0) {
    std::vector<float> unit_amax(static_cast<std::size_t>(job.units()));
    for_each_unit(job, parallel_for, findings, [&](std::int64_t i, Unit& unit) {
      std::vector<float> one(1);
      measure(job, unit.rows, 0, unit.rows.range().length, one);
      unit_amax[static_cast<std::size_t>(i)] = one[0];
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

void HeadQuantizer::run(std::int64_t sequence, std::int64_t head, std::int64_t codes_shift) {
  const Job& job = state_->job;
  if (!state_->refusal.ok() || job.x.shape[2] == 0) return;
  run_unit(job, sequence * job.heads() + head, state_->findings, [&](std::int64_t, Unit& unit) {
    unit.codes = shifted(job.out.codes, codes_shift);
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
      for_each_parallel(parallel_for, units,
                        [&](std::int64_t i) { units_of_their_own.run(i / heads, i % heads); });
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
