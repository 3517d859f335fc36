#include "quant/encode.h"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "base/scratch.h"
#include "quant/codes.h"

namespace octet::quant {

bool leaves_nothing_to_clamp(const OperandRecipe& recipe) {
  return recipe.shared_amax == 0 && recipe.largest_code <= 127;
}

void measure(const Job& job, RowReader& rows, std::int64_t begin, std::int64_t end, std::span<float> amax) {
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

namespace {

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

float scale_of(const Job& job, float amax) {
  return group_scale(amax, 0, job.recipe.rule, job.recipe.largest_code).scale;
}

// Rows and what is done to them on their way.
struct Scaled {
  Rows rows;
  const float *factor, *rscale;
};

void pack_columns(const Unit& unit, const Scaled& x, std::byte* out) {
  const PackedCodesKernels& kernels = unit.rows.kernels().packed;
  if (unit.packed.order == PackedCodes::Order::columns)
    kernels.columns(x.rows, x.factor, x.rscale, unit.packed.flip, out);
  else
    kernels.quads(x.rows, x.factor, x.rscale, out);
}

// Packs the codes of rows, the first of which is the unit's token `first`. The sequence's last tokens may
// fill no column: rows of zeros follow them.
void pack_rows(const Unit& unit, std::int64_t first, const Scaled& x) {
  const std::int64_t tokens = unit.packed.tokens, channels = x.rows.channels;
  const std::int64_t whole = x.rows.count / tokens * tokens, rest = x.rows.count - whole;
  std::byte* const out = unit.packed.data + first * channels;
  Scaled columns = x;
  columns.rows.count = whole;
  pack_columns(unit, columns, out);
  if (rest == 0) return;
  Scratch& scratch = thread_scratch();  // whose reset is the reader's
  float* const filled = scratch.take<float>(tokens * channels);
  float* const rscale = scratch.take<float>(tokens);
  Rows last = x.rows;
  last.data = last.row(whole), last.count = rest;
  unit.rows.kernels().floats(last, {filled, channels, channels});
  std::fill(filled + rest * channels, filled + tokens * channels, 0.0f);
  std::copy_n(x.rscale + whole, rest, rscale);
  std::fill(rscale + rest, rscale + tokens, 0.0f);
  pack_columns(unit, {FloatRows{filled, channels, tokens, channels}, x.factor, rscale},
               out + whole * channels);
}

// Codes of tokens [first, first + count); rscale: one a row or, where channels have scales of their own, one
// a channel.
void write_rows(const Job& job, Unit& unit, std::int64_t first, std::int64_t count, const float* rscale) {
  RowReader& rows = unit.rows;
  const TensorView& codes = unit.codes;
  const TokenRange& range = rows.range();
  const bool by_channel = job.out.channels_per_scale > 0;
  if (codes.dtype == DType::s8 && !by_channel && leaves_nothing_to_clamp(job.recipe)) {
    rows.read_factored(first, count);
    const auto& [x, factor] = rows.factored();
    if (unit.packed.data) return pack_rows(unit, first, {x, factor, rscale});
    auto* to = element<std::int8_t>(codes, range.b, range.h, range.begin + first);
    return rows.kernels().codes(x, factor, rscale, to, codes.stride[2]);
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

// Formats without scales, which have NaN and Inf: rows to which nothing is done are written from where they
// are.
void convert(Unit& unit) {
  RowReader& rows = unit.rows;
  const TokenRange& range = rows.range();
  for_tokens(rows, 0, range.length, rows.capacity(), [&](std::int64_t first, std::int64_t count) {
    const TensorView& to = unit.codes;
    if (to.dtype == DType::f32 && rows.is_plain())
      return rows.kernels().floats(
          rows.stored(first, count),
          {element<float>(to, range.b, range.h, range.begin + first), to.stride[2], rows.channels()});
    const FloatRows x = rows.look(first, count);
    if (to.dtype == DType::f16 || to.dtype == DType::bf16)
      return rows.kernels().narrow({x.data, x.stride, count, x.channels}, to.dtype,
                                   element<std::uint16_t>(to, range.b, range.h, range.begin + first),
                                   to.stride[2]);
    for (std::int64_t r = 0; r < count; ++r)
      write_codes(to, range.b, range.h, range.begin + first + r, x.row(r), x.channels);
  });
}

// Codes of tokens [begin, end), whose channels share the one rscale or have one each. of_rows: room for a
// number for each row that is read at once.
void write_group(const Job& job, Unit& unit, std::int64_t begin, std::int64_t end,
                 std::span<const float> rscale, float* of_rows) {
  RowReader& rows = unit.rows;
  const std::int64_t together = std::min(rows.capacity(), end - begin);
  const bool by_channel = job.out.channels_per_scale > 0;
  if (!by_channel) std::fill_n(of_rows, together, rscale[0]);
  for_tokens(rows, begin, end, together, [&](std::int64_t first, std::int64_t count) {
    write_rows(job, unit, first, count, by_channel ? rscale.data() : of_rows);
  });
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
  return whole_columns(kFloats / rows.channels());
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

// note: many at once, without a way out, for the compiler takes those in vectors.
bool any_below(const float* x, std::int64_t count, float floor) {
  constexpr std::int64_t kTogether = 16;
  std::int32_t found = 0;
  std::int64_t i = 0;
  for (; i + kTogether <= count; i += kTogether)
    for (std::int64_t k = 0; k < kTogether; ++k) found |= x[i + k] < floor ? 1 : 0;
  for (; i < count; ++i) found |= x[i] < floor ? 1 : 0;
  return found != 0;
}

// Scales and codes as they are with a higher floor, once its reference is known. Few tokens have smaller
// scales, if any; integers of zeros have the codes already, while an Inf beside zeros is NaN without a scale.
void raise_floor(const Job& job, Unit& unit, float floor, const TokenScales& tokens) {
  RowReader& rows = unit.rows;
  if (!any_below(tokens.scale, tokens.count(), floor)) return;
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
    float amax = 0;
    measure(job, rows, 0, length, {&amax, 1});
    head_floor = scale_floor(scale_of(job, amax), recipe.head_floor_octaves);
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
  float amax = 0;
  measure(job, rows, 0, rows.range().length, {&amax, 1});
  return scale_floor(scale_of(job, amax), job.recipe.head_floor_octaves);
}

}  // namespace

void encode(const Job& job, Unit& unit, const Scale* shared) {
  RowReader& rows = unit.rows;
  if (!has_scales(job.recipe.format)) return convert(unit);
  if (!shared && job.recipe.granularity == Granularity::token) return encode_tokens(job, unit);
  Scratch& scratch = thread_scratch();  // whose reset is the reader's
  float* const of_rows = scratch.take<float>(rows.capacity());
  if (shared) return write_group(job, unit, 0, rows.range().length, {&shared->rscale, 1}, of_rows);

  const Groups groups = groups_of(job, unit);
  const float floor = block_floor(job, rows);
  const std::int64_t first = job.sequences.first_group(unit.sequence, groups.tokens);
  const auto channels = static_cast<std::size_t>(groups.channels);
  const std::span<float> amax(scratch.take<float>(groups.channels), channels),
      rscale(scratch.take<float>(groups.channels), channels);
  for (std::int64_t g = 0; g < groups.count(); ++g) {
    measure(job, rows, groups.begin(g), groups.end(g), amax);
    float* scales = element<float>(job.out.scales, rows.range().b, rows.range().h, first + g);
    for (std::size_t c = 0; c < amax.size(); ++c) {
      const Scale s = group_scale(amax[c], floor, job.recipe.rule, job.recipe.largest_code);
      scales[static_cast<std::int64_t>(c) * job.out.scales.stride[3]] = s.scale;
      rscale[c] = s.rscale;
    }
    write_group(job, unit, groups.begin(g), groups.end(g), rscale, of_rows);
  }
}

}  // namespace octet::quant
