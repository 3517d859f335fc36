#include "ref/bound_terms.h"

#include <algorithm>
#include <cmath>

#include "lanes/scalar.h"
#include "numerics/f16.h"
#include "numerics/fixed16.h"
#include "numerics/iexp.h"
#include "numerics/integer.h"
#include "numerics/ivit.h"
#include "ref/row_softmax.h"

namespace octet::ref {
namespace {

constexpr double kLn2F64 = 0.693147180559945309;

// Largest errors of the exponentials and of log2, from numerics/exp2.h.
constexpr double kExp2Error = kLaneExp2Error;  // exp2_poly's is 1.01e-7
constexpr double kLog2Error = 1.2e-7;
constexpr double kLinearExp2High = 0.06148;  // the chord of 2^x is high by up to 6.148 %
constexpr double kLinearExp2Grid = 0x1p-24;  // octaves: its argument is rounded to 2^-23
constexpr double kLeastWeight = 0x1p-126;    // smaller ones are flushed to zero, or count as this
constexpr double kLeastNormal = 0x1p-126;    // what products of bf16 flush to zero below

/// Half the width of the interval of log((1 + x)) for x in [low, high]: a factor common to all weights
/// cancels.
double log_half_width(double low, double high) { return 0.5 * (std::log1p(high) - std::log1p(low)); }

/// Two numbers of at most 11 significant bits have an exact product in f32.
bool product_is_exact(DType format) { return format != DType::f32 && format != DType::f64; }

/// Roundings on the way of a product into an accumulator of Q K: none in integers; else the product and as
/// many sums as the longest order has, one channel after another (the reference's tree has fewer).
double dot_roundings(const RowContext& row) {
  const DType format = row.quantised.args.q.codes.dtype;
  if (format == DType::s8 || format == DType::s4) return 0;
  return static_cast<double>(row.dim) - (product_is_exact(format) ? 1 : 0);
}

/// Roundings within one key block's P V: none in integers, else a product and a sum for each key.
double block_roundings(const RowContext& row) {
  const DType format = row.quantised.args.v.codes.dtype;
  if (format == DType::s8) return 0;
  return static_cast<double>(row.keys.widest_block) - (product_is_exact(format) ? 1 : 0);
}

/// Largest |score| in nats, bias not included (Cauchy-Schwarz on the stored numbers).
double largest_score(const RowContext& row) { return row.softmax_scale() * row.q.l2 * row.keys.k.l2; }

/// Error in nats that a row's scores have from Q and K being stored in the scheme's format: rounding to
/// codes, and the f32 arithmetic of smoothing and rotation before it.
double operand_error(const RowContext& row) {
  const AttentionDesc& desc = row.desc();
  const DType format = row.quantised.args.q.codes.dtype;
  const FormatError e = format_error(format, row.plain.args.q.codes.dtype);
  const double d = static_cast<double>(row.dim), r = e.relative, a = e.absolute;
  const RowNorms &q = row.q, &k = row.keys.k;
  const double codes = (2 * r + r * r) * q.l2 * k.l2 + a * (1 + r) * (k.step * q.l1 + q.step * k.l1) +
                       d * a * a * q.step * k.step;
  // Smoothing rounds K once a channel. Rotation: each operand is multiplied by a rounded norm (2) and goes
  // through log2(block) additions, each of which moves a vector by at most a unit roundoff of its length.
  double roundings = desc.recipe.smooth == Smooth::none ? 0 : 1;
  if (desc.recipe.rotate == Rotate::on)
    roundings +=
        2 * (2 + std::log2(static_cast<double>(row.dim & -row.dim)));  // Hadamard block: quant/rotate.h
  const double lengths =
      (q.l2 * (1 + r) + a * std::sqrt(d) * q.step) * (k.l2 * (1 + r) + a * std::sqrt(d) * k.step);
  return row.softmax_scale() * (codes + gamma(roundings) * lengths);
}

/// Roundings of a score and of the exponential, in a scheme on numerics/online.h. `factors`: multiplications
/// of a key's score by what other keys do not share. `shared`: roundings in the factor that all scores of the
/// row have; it stretches distances.
void add_score_roundings(const RowContext& row, double factors, double shared, RowTerms& t) {
  const double s = largest_score(row), b = row.keys.bias, v = row.keys.log2_v();
  t.score += gamma(dot_roundings(row) + factors) * s;
  // The subtractions of references: a key's distance is a sum of terms of one sign, each rounded once.
  t.distance += gamma(1);
  if (b > 0) {  // the scores' factor is not the biases'
    t.score += gamma(shared) * s + gamma(2) * b + gamma(1) * (s + b);
  } else {
    t.distance += gamma(shared);
  }
  if (v > 0)  // added to a score, and part of what is subtracted
    t.score += kLn2F64 * (kLog2Error * std::max(1.0, v) + gamma(2) * v) + gamma(1) * (s + b + kLn2F64 * v);
  // The weight's own exponential and unit, and one exponential a block for the rescaling.
  t.score += gamma(1) + kExp2Error * static_cast<double>(row.keys.blocks);
}

/// Roundings of the two sums and the quotient. `on_mass`: of a summand of the row sum; `at_fold`, `at_end`:
/// of what V's scale costs a block and the end.
void add_sum_roundings(const RowContext& row, double on_mass, double at_fold, double at_end, RowTerms& t) {
  const double folds = 2 * static_cast<double>(row.keys.blocks) - 1;
  const double numerator = block_roundings(row) + at_fold + folds + 1 + at_end;
  const double denominator = on_mass + static_cast<double>(row.keys.widest_block) - 1 + folds;
  t.sums += gamma(numerator) + gamma(denominator);
}

/// Adds what the output's dtype does to a number, underflow of f32 sums included.
void end_in_values(const RowContext& row, RowTerms& t) {
  t.out_absolute += static_cast<double>(row.keys.keys) * 0x1p-148;
  switch (row.desc().output) {
    case DType::f16:
      t.out_relative += kUnitF16, t.out_absolute += 0x1p-25, t.out_largest = std::min(t.out_largest, 65504.0);
      return;
    case DType::bf16:
      t.out_relative += kUnitBf16, t.out_absolute += 0x1p-134;
      return;
    default:
      t.out_largest = std::min(t.out_largest, 0x1.fffffep127);
  }
}

RowTerms exact_terms(const RowContext& row) {
  RowTerms t;
  const double n = static_cast<double>(row.keys.keys), s = largest_score(row), b = row.keys.bias;
  const double dot = static_cast<double>((row.dim + 3) / 4) + 3;
  // Product, scale, bias; exp within one unit in the last place; a rescaling at each new maximum.
  t.score = gamma(dot + 1, kUnitF64) * s + gamma(1, kUnitF64) * (s + b) + gamma(2 * (n + 1), kUnitF64);
  t.distance = gamma(1, kUnitF64);
  t.sums = gamma(2 * n + 1, kUnitF64) + gamma(2 * n, kUnitF64);
  if (row.desc().output == DType::f32) t.out_relative = kUnitF32, t.out_absolute = 0x1p-150;
  return t;
}

/// P stays a float: f32, or rounded to a format of `unit` roundoff with subnormals of half step `least`.
void add_float_p(const RowContext& row, double unit, double least, RowTerms& t) {
  t.sums += unit / (1 + unit);
  t.p_loss = lost_mass(static_cast<double>(row.keys.keys), std::max(least, kLeastWeight), 1);
}

/// f32, f16, and most of bf16. at_end: roundings of an output, whose last one is counted anyway.
RowTerms plain_terms(const RowContext& row, double p_unit, double p_least, double at_end) {
  RowTerms t;
  t.score = operand_error(row);
  add_score_roundings(row, 1, 2, t);
  add_float_p(row, p_unit, p_least, t);
  add_sum_roundings(row, 0, 0, at_end, t);
  return t;
}

constexpr double kByReciprocal = 1;  // an output is a product with the reciprocal of the row's sum

/// bf16, whose products may be vdpbf16ps: operands, products and sums below 2^-126 count as zero. What
/// operands lose by that is format_error()'s.
RowTerms bf16_terms(const RowContext& row) {
  constexpr double kWeightError = Bf16Scheme<ScalarLane>::kWeightError;
  RowTerms t = plain_terms(row, kUnitBf16, 0, kByReciprocal);
  t.score += log_half_width(-kWeightError, kWeightError);
  t.score += row.softmax_scale() * 2 * static_cast<double>(row.dim) * kLeastNormal;
  // The row's largest weight, which the sums are divided by at least, is 1 within kWeightError.
  t.out_absolute += 2 * static_cast<double>(row.keys.keys) * kLeastNormal / (1 - kWeightError);
  return t;
}

/// What the schemes on numerics/scaled.h share: scores from codes and scales.
RowTerms scaled_terms(const RowContext& row) {
  RowTerms t;
  t.score = operand_error(row);
  // The scales' product and the product with it; in the row's factor: log2 e, softmax_scale, Q's scale.
  add_score_roundings(row, 2, 3, t);
  const double v_in_p = row.keys.v_varies() ? 2 : 0;  // 1 / scale, and the product with it
  // Integer block sums are exact in f32 to 2^24 (255 * 127 * 512), then V's scale of the block; at the end
  // the reciprocal of the row sum, and V's scale.
  const double at_fold = row.desc().key_block > 512 ? 2 : 1;
  add_sum_roundings(row, v_in_p, at_fold, 2, t);
  return t;
}

/// What scores lose where a matrix unit multiplies e4m3 as it is.
double e4m3_scores_error(const RowContext& row) {
  return e4m3_unit_error(static_cast<double>(row.dim)) * largest_score(row);
}

/// fp8_hybrid, int8_half: P in f16 against the running maximum.
RowTerms half_p_terms(const RowContext& row) {
  RowTerms t = scaled_terms(row);
  add_float_p(row, kUnitF16, 0x1p-25, t);
  return t;
}

/// fp8, int8_fp8: P in e4m3 against the running maximum, and the row sum of the rounded P: its relative error
/// is one of the weights. Subnormal steps are 2^-9.
RowTerms e4m3_p_terms(const RowContext& row, double unit) {
  RowTerms t = scaled_terms(row);
  constexpr double kRelative = kUnitE4m3 / (1 + kUnitE4m3);
  t.score += log_half_width(-kRelative, kRelative);
  t.moved = lost_mass(static_cast<double>(row.keys.keys), 0x1p-10 * row.keys.v_ratio(), unit);
  // Where P V is a matrix unit's, pairs of codes of the row sum are added in halves too.
  t.sums += e4m3_unit_error(static_cast<double>(row.keys.widest_block)) + kUnitF16;
  return t;
}

/// P in 7 bits against the running maximum: what underflows is lost, however many keys it is.
RowTerms int8_full_terms(const RowContext& row) {
  RowTerms t = scaled_terms(row);
  const bool codes = row.desc().options.row_sum == SchemeOptions::RowSum::codes;
  (codes ? t.moved : t.p_loss) = lost_mass(static_cast<double>(row.keys.keys), 0.5, 127);
  return t;
}

/// What the 16-bit form of the softmax (numerics/fixed16.h), which a kernel may take, adds to the f32 form.
void add_fixed16(const RowContext& row, RowTerms& t) {
  constexpr double kExponential = 0.0031;
  t.score += kLn2F64 * (0.5 + fixed16::kOffsetRounding) / fixed16::kUnits +
             log_half_width(-kExponential, kExponential);
  t.sums += 0.5 * fixed16::kScaleRange / (1 << fixed16::kMassBits);  // r is rounded
  // A weight is rounded to 2^-15, and its mass is as many times that as V's scales differ.
  t.moved += lost_mass(static_cast<double>(row.keys.widest_block), 0x1p-16 * fixed16::kScaleRange, 1);
}

/// int8, int8_shift and int4: u8 P against the key block's maximum, V's token scale in P.
RowTerms int8_terms(const RowContext& row) {
  RowTerms t = scaled_terms(row);
  add_fixed16(row, t);
  t.p_loss = ordered_lost_mass(static_cast<double>(row.keys.widest_block),
                               static_cast<double>(row.desc().key_block), fixed16::kCodeOne);
  return t;
}

RowTerms int8_shift_terms(const RowContext& row) {
  RowTerms t = int8_terms(row);
  t.score += log_half_width(0, kLinearExp2High) + kLn2F64 * kLinearExp2Grid;
  return t;
}

/// P from a table, u8 against the running maximum, and the row sum of the codes. The tables' ends need no
/// term: what they set to zero would round to the code 0 in any case.
RowTerms int8_lut_terms(const RowContext& row) {
  constexpr double kReach = 8;  // nats: numerics/exp_table.h
  const SchemeOptions& options = row.desc().options;
  const double segments = std::ldexp(1.0, options.table_bits);
  RowTerms t = scaled_terms(row);
  if (options.table == SchemeOptions::Table::direct) {
    t.score += kReach / segments / 2;  // the nearest entry
  } else {
    // The chord over a segment of h nats lies above e^-x, most where s = 1 / (1 - e^-h) - 1 / h.
    const double h = (options.table == SchemeOptions::Table::linear ? kReach : kLn2F64) / segments;
    const double s = -1 / std::expm1(-h) - 1 / h;
    t.score += log_half_width(0, (1 + s * std::expm1(-h)) * std::exp(s * h) - 1);
  }
  t.score += gamma(32);    // entries, position and interpolation, of numbers up to 8 nats
  t.distance += gamma(2);  // octaves to nats
  t.moved = lost_mass(static_cast<double>(row.keys.keys), 0.5, 255);
  return t;
}

/// Nothing is known but what the output's codes can hold.
RowTerms unknown_terms() {
  RowTerms t;
  t.p_loss = kUnbounded;
  return t;
}

/// Integers throughout: the exponential as surveyed, sums rounded at each release, a truncated output code.
RowTerms qflash_terms(const RowContext& row, const QFlashSurvey& survey) {
  const SchemeOptions& options = row.desc().options;
  const double step_v = *static_cast<const float*>(row.quantised.args.v.scales.data);
  const double n = static_cast<double>(row.keys.keys), blocks = static_cast<double>(row.keys.blocks);
  const double unit_of_score = survey.octaves * kLn2F64;
  const double reach = unit_of_score > 0 ? (largest_score(row) + row.keys.bias) / unit_of_score : kUnbounded;
  constexpr double kHidingBias = 100;        // the published host code hides keys from here on
  const bool fits = n * 127 * 127 < 0x1p31;  // the int32 accumulator
  const bool wraps = options.rescale == SchemeOptions::Rescale::accumulate && blocks > 1;
  const bool sound = survey.sound && reach <= survey.reach && row.keys.bias < kHidingBias && fits && !wraps;
  RowTerms t = sound ? RowTerms{} : unknown_terms();
  t.least = -128 * step_v, t.most = 127 * step_v;
  if (!sound) return t;

  t.score = operand_error(row) + (row.keys.bias > 0 ? unit_of_score / 2 + gamma(4) * row.keys.bias : 0);
  t.score += blocks * (survey.high - survey.low) / 2 + (blocks - 1) * survey.release;
  const double least_unit = 127 * std::exp(survey.low);
  t.moved = n * survey.code_step / least_unit +
            (blocks - 1) * n * survey.decay_step * std::exp(survey.high - survey.low);
  // Half a unit in both sums at each release, against a row sum of at least the largest code; the quotient.
  const double released = (blocks - 1) * 0.5 / std::max(survey.unit - blocks, 1.0);
  t.sums = released + gamma(4);
  t.out_absolute = (released + 1) * step_v;  // the output code is truncated
  t.out_relative = kUnitF32;
  t.out_largest = 127.9 * step_v;
  return t;
}

/// Integers throughout: distances in units of 2^-10 octave, P against a reference up to a sixteenth of an
/// octave above the block's largest score, exact sums, output codes with the row's own scale.
RowTerms integer_terms(const RowContext& row, const ExponentialSurvey& survey) {
  using S = IntegerScheme<ScalarLane>;
  const double unit = kLn2F64 * std::ldexp(1.0, -S::kUnitBits), s = largest_score(row), b = row.keys.bias;
  const double keys = static_cast<double>(row.keys.widest_block), n = static_cast<double>(row.keys.keys);
  constexpr double kFarthest = kLn2F64 * (1 << 18);  // nats: beyond, distances may saturate
  constexpr double kFold = 0.5 / 2139;               // a reference's fraction of an octave has 11 bits
  constexpr double kMultiplier = 0x1p-16;            // octaves an accumulator unit have 16 bits
  RowTerms t;
  t.score = operand_error(row) + survey.half_width();
  // Roundings of half a unit: the accumulator's distance, its product's (cut), a bias, V's octaves.
  t.score += unit * (1 + (b > 0 ? 0.5 : 0) + (row.keys.v_varies() ? 0.5 + 0x1p-10 : 0));
  if (row.keys.blocks > 1) t.score += unit / 2 + s * 0x1p-30 + kFold;  // the blocks' places among each other
  if (b > 0) {
    t.score += (kMultiplier + gamma(4)) * 2 * s + gamma(3) * b;
  } else {
    t.distance = kMultiplier + gamma(4);
  }
  if (s + b > kFarthest) t.score = kUnbounded;
  // What weights lose to their 16 bits counts in both sums; what P loses to its 8 bits in one.
  const double least_unit = std::exp2(-1.0 / (1 << (S::kUnitBits - S::kGridBits))) * std::exp(survey.low);
  t.moved = lost_mass(keys + 1, survey.step * row.keys.v_ratio(), least_unit) + n * 0x1p-32;
  t.p_loss = lost_mass(keys + 1, 0.5, 255 * least_unit - 0.5) + 0x1p-18;
  t.sums = 0x1p-17;  // shifts of sums of 18 bits and more, mantissas of 31
  // The largest code is 64 or more; a row whose largest rounds up to 128 gets 64 for at least 63.75.
  t.out_step = (0.5 + 0x1p-20) / 63.75;
  t.out_relative = gamma(3);
  return t;
}

/// Scores and the normalised P are stored in f16, whole rows at once.
RowTerms standard_terms(const RowContext& row) {
  const double n = static_cast<double>(row.keys.keys), s = largest_score(row), b = row.keys.bias;
  constexpr double kF16Largest = 65504;
  RowTerms t = s + b < kF16Largest ? RowTerms{} : unknown_terms();
  t.score = operand_error(row) + gamma(dot_roundings(row) + 1) * s + (b > 0 ? gamma(1) * (s + b) : 0);
  t.score += kUnitF16 * (1 + kUnitF16) * (s + b) + 0x1p-25 + kExp2Error;
  t.distance = gamma(3);
  t.p_loss += n * 0x1p-25;  // P's subnormals: the row's mass is 1
  t.sums = kUnitF16 + gamma(n + 1) + gamma(n);
  return t;
}

/// P and V in bf16, sums in f32, an output in the codes of the one scale.
RowTerms qattn_terms(const RowContext& row) {
  const double scale = *static_cast<const float*>(row.quantised.args.v.scales.data);
  RowTerms t;
  t.score = operand_error(row);
  add_score_roundings(row, 1, 4, t);
  add_float_p(row, kUnitBf16, 0, t);
  add_sum_roundings(row, 0, static_cast<double>(row.keys.widest_block), 1, t);
  t.v.relative = kUnitBf16 + 2 * kUnitF32;  // of code * scale; the largest code is half a step short of amax
  // Half a code, and another half where 127.5 saturates.
  t.out_absolute = (1 + 0x1p-15) * scale;
  t.out_relative = gamma(2);
  t.least = -128 * scale, t.most = 127 * scale;
  return t;
}

/// The exponential in 16 bits, then P cut to 8: nothing is normalised after that.
RowTerms ibert_terms(const RowContext& row, const ExponentialSurvey& survey) {
  const double n = static_cast<double>(row.keys.keys);
  RowTerms t;
  t.score = operand_error(row) + survey.half_width();
  t.moved = survey.moved(n, 0.5 / 32767);
  t.p_loss = std::min(n / 256 + n * 0x1p-17, 1.0);  // P's cut, and that of the reciprocal of the sum
  t.sums = gamma(4);
  return t;
}

/// P is a power of two: 2^-k is 0.625 to 1.5 times the weight; one below 2^-15.5 is lost.
RowTerms fqvit_terms(const RowContext& row, const ExponentialSurvey& survey) {
  const double n = static_cast<double>(row.keys.keys);
  RowTerms t;
  t.score = operand_error(row) + survey.half_width();
  t.moved = survey.moved(n);
  t.p_loss = 0.5 + 0.5 * std::min(n * 0x1p-15, 1.0);
  t.sums = gamma(4);
  return t;
}

/// Scores are rounded to codes first. P is cut to 7 bits, and so is the reciprocal of the sum, to an integer:
/// of many keys or fine scores little is left. Where the sum saturates, P is no average any more.
RowTerms ivit_terms(const RowContext& row, const ExponentialSurvey& survey, const IVitUnits& units) {
  constexpr double kLargestSum = 2147483647;
  const double n = static_cast<double>(row.keys.keys), factor = std::floor(kLargestSum / (n * units.one));
  if (factor < 1) return unknown_terms();
  RowTerms t;
  t.score = operand_error(row) + (0.5 + 0x1p-20) * units.score_code + survey.half_width();
  t.moved = survey.moved(n);
  t.p_loss = std::min(n / 128 + 1 / (factor + 1) + 0x1p-30, 1.0);
  t.sums = gamma(4);
  return t;
}

}  // namespace

FormatError format_error(DType format, DType given) {
  // A code is x times a rounded reciprocal, which is off by less than 2^-15 codes at 127, and rounded.
  constexpr double kHalfCode = 0.5 + 0x1p-15;
  constexpr double kScaling = 0x1p-21;  // the same, relative
  switch (format) {
    case DType::s8:
    case DType::s4:
      return {0, kHalfCode};
    case DType::e4m3:
      return {kUnitE4m3 + kScaling, 0x1p-10};
    case DType::e5m2:
      return {kUnitE5m2 + kScaling, 0x1p-17};
    case DType::f16:
      return given == DType::f16 ? FormatError{} : FormatError{kUnitF16, 0x1p-25};
    case DType::bf16:
      return {given == DType::bf16 ? 0 : kUnitBf16, kLeastNormal};
    default:
      return {};
  }
}

Terms::Terms(const Problem& plain, const Problem& quantised)
    : plain_(plain), quantised_(quantised), dim_(quantised.args.q.codes.shape[3]) {
  const Prepare input = prepare_input(quantised, nullptr);
  const double nats = double{input.softmax_scale} * input.q_scale * input.k_scale;
  switch (quantised.desc.scheme) {
    case Scheme::qflash:
      qflash_ = QFlashSurvey::of(quantised);
      break;
    case Scheme::integer: {
      using S = IntegerScheme<ScalarLane>;
      constexpr double kOne = 32768;
      const auto weight = [](std::int64_t z) { return S::exp2_u16(static_cast<std::uint16_t>(z)) / kOne; };
      exponential_ = ExponentialSurvey::of(weight, std::ldexp(1.0, -S::kUnitBits), 65535);
      break;
    }
    case Scheme::ibert:
    case Scheme::fqvit: {
      const IExp exponential = IExp::of(nats);
      const auto weight = [&](std::int64_t x) {
        return exponential(-static_cast<double>(x)) / exponential(0);
      };
      exponential_ = ExponentialSurvey::of(weight, nats / kLn2F64, 2 * largest_product(quantised));
      break;
    }
    case Scheme::ivit: {
      using S = IVitScheme<ScalarLane>;
      const S prepared = S::prepare(input);
      const S scheme = prepared.calibrated(largest_accumulator(prepared, quantised));
      const auto one = static_cast<double>(scheme.exponential(0));
      const auto weight = [&](std::int64_t x) { return static_cast<double>(scheme.exponential(-x)) / one; };
      exponential_ = ExponentialSurvey::of(weight, scheme.scale / kLn2F64, 255);
      ivit_ = {scheme.scale, one};
      break;
    }
    default:
      break;
  }
}

RowTerms Terms::of_scheme(const RowContext& row) const {
  switch (row.desc().scheme) {
    case Scheme::exact:
      return exact_terms(row);
    case Scheme::f32:
      return plain_terms(row, 0, 0, 0);
    case Scheme::f16:
      return plain_terms(row, kUnitF16, 0x1p-25, kByReciprocal);
    case Scheme::bf16:
      return bf16_terms(row);
    case Scheme::fp8: {
      RowTerms t = e4m3_p_terms(row, 256);
      t.score += e4m3_scores_error(row);
      return t;
    }
    case Scheme::int8_fp8:
      return e4m3_p_terms(row, 448);
    case Scheme::fp8_hybrid: {
      RowTerms t = half_p_terms(row);
      t.score += e4m3_scores_error(row);
      return t;
    }
    case Scheme::int8_half:
      return half_p_terms(row);
    case Scheme::int8_full:
      return int8_full_terms(row);
    case Scheme::int8:
    case Scheme::int4:
      return int8_terms(row);
    case Scheme::int8_shift:
      return int8_shift_terms(row);
    case Scheme::int8_lut:
      return int8_lut_terms(row);
    case Scheme::qflash:
      return qflash_terms(row, qflash_);
    case Scheme::integer:
      return integer_terms(row, exponential_);
    case Scheme::standard:
      return standard_terms(row);
    case Scheme::qattn:
      return qattn_terms(row);
    case Scheme::ibert:
      return ibert_terms(row, exponential_);
    case Scheme::fqvit:
      return fqvit_terms(row, exponential_);
    case Scheme::ivit:
      return ivit_terms(row, exponential_, ivit_);
    default:
      return unknown_terms();
  }
}

RowTerms Terms::of(const RowNorms& q, const KeySet& keys) const {
  const RowContext row{plain_, quantised_, q, keys, dim_};
  RowTerms t = of_scheme(row);
  t.keys = static_cast<double>(keys.keys);
  const FormatError v = format_error(quantised_.args.v.codes.dtype, plain_.args.v.codes.dtype);
  t.v.relative += v.relative, t.v.absolute += v.absolute;
  if (quantised_.desc.scheme != Scheme::exact) end_in_values(row, t);
  return t;
}

}  // namespace octet::ref
