// The a-priori error bound: no element of any scheme's output may be further from float64 attention than it
// says, on data of every kind; and it may not be padded, which is shown by how near to it errors come.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "numerics/formats.h"
#include "numerics/ordered_rounding.h"
#include "ref/schemes.h"
#include "tests/attention/distributions.h"
#include "tests/attention/harness.h"

namespace octet::testing {
namespace {

enum class Round { down, up };

constexpr const char* kKinds[] = {"normal", "sharp",    "outlier", "biasK", "sink", "mixed",
                                  "vtoken", "vchannel", "uniform", "tiny",  "huge"};

/// Schemes that the reference computes.
std::vector<Scheme> schemes() {
  std::vector<Scheme> all;
  for (const SchemeInfo& info : all_schemes()) {
    if (info.scheme != Scheme::exact && ref::attend_of(info.scheme)) all.push_back(info.scheme);
  }
  return all;
}

/// Inputs of a case, one distribution a KV head; the query heads of a group have queries of their own.
Inputs inputs_of(const char* kind, const Case& c) {
  const AttentionDesc& d = c.desc;
  const std::int64_t group = d.heads_q / d.heads_kv;
  Inputs all;
  for (std::int64_t h = 0; h < d.batch * d.heads_kv; ++h) {
    const Inputs head = distribution(kind, c.seed * 101 + static_cast<std::uint64_t>(h), group * d.tokens_q,
                                     d.tokens_k, std::max(d.head_dim, d.head_dim_v));
    const std::int64_t dim = std::max(d.head_dim, d.head_dim_v);
    const auto append = [dim](std::vector<float>& to, const std::vector<float>& from, std::int64_t keep) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        if (static_cast<std::int64_t>(i) % dim < keep) to.push_back(round_to_f16(from[i]));
      }
    };
    append(all.q, head.q, d.head_dim), append(all.k, head.k, d.head_dim), append(all.v, head.v, d.head_dim_v);
  }
  return all;
}

/// The largest error over bound of a run, and where.
struct Ratio {
  double largest = 0;
  std::size_t at = 0;
  double trivial = 0;    ///< share of the elements with a bound no smaller than twice the largest |V|
  double unbounded = 0;  ///< share of those with a bound of +inf
};

Ratio ratio_of(const Outcome& result, const Inputs& in) {
  double size = 0;
  for (float v : in.v) size = std::max(size, std::fabs(double{v}));
  Ratio r;
  for (std::size_t i = 0; i < result.o.size(); ++i) {
    const double error = std::fabs(result.o[i] - result.exact[i]), bound = result.bound[i];
    const double ratio = error == 0 ? 0 : error / bound;
    if (!(ratio <= r.largest)) r.largest = ratio == ratio ? ratio : HUGE_VAL, r.at = i;
    r.trivial += bound >= 2 * size;
    r.unbounded += std::isinf(bound);
  }
  r.trivial /= static_cast<double>(result.o.size());
  r.unbounded /= static_cast<double>(result.o.size());
  return r;
}

std::string name_of(Scheme scheme) { return std::string(scheme_info(scheme).name); }

/// Runs a case and expects every element's error within its bound.
Ratio expect_within(const Case& c, const Inputs& in, const std::string& what) {
  const Outcome result = run(c, in);
  const Ratio r = ratio_of(result, in);
  EXPECT_LE(r.largest, 1) << name_of(c.desc.scheme) << ", " << what << ", seed " << c.seed << ", "
                          << c.desc.tokens_q << " x " << c.desc.tokens_k << " tokens, d " << c.desc.head_dim
                          << ", element " << r.at << ": " << result.o[r.at] << " against "
                          << result.exact[r.at] << ", bound " << result.bound[r.at];
  return r;
}

struct Shape {
  std::int64_t heads_q, heads_kv, tokens_q, tokens_k, dim, dim_v, key_block;
  Mask mask;
};
constexpr Shape kShapes[] = {
    {1, 1, 5, 1, 1, 1, 128, Mask::none},        {2, 1, 9, 17, 7, 5, 128, Mask::none},
    {1, 1, 33, 33, 32, 32, 32, Mask::causal},   {2, 2, 5, 197, 64, 64, 128, Mask::none},
    {4, 2, 11, 301, 64, 80, 64, Mask::causal},  {1, 1, 3, 130, 80, 64, 128, Mask::none},
    {1, 1, 2, 1025, 128, 128, 128, Mask::none}, {1, 1, 2, 257, 256, 256, 128, Mask::none},
};

Case case_of(Scheme scheme, const Shape& s) {
  Case c = self_attention(scheme, s.heads_q, s.tokens_q, s.dim);
  c.desc.heads_kv = s.heads_kv, c.desc.tokens_k = s.tokens_k, c.desc.head_dim_v = s.dim_v;
  c.desc.key_block = s.key_block, c.desc.mask = s.mask;
  return c;
}

/// Heads of 70 queries and 150 keys in three key blocks.
Case middling_case(Scheme scheme) { return case_of(scheme, {2, 1, 70, 150, 32, 24, 64, Mask::none}); }

TEST(ErrorBound, HoldsForEveryElementOnEveryDistribution) {
  for (const Scheme scheme : schemes()) {
    double largest = 0, at_many_keys = 0, trivial = 0, unbounded = 0;
    for (const Shape& shape : kShapes) {
      for (const char* kind : kKinds) {
        const Case c = case_of(scheme, shape);
        const Ratio r = expect_within(c, inputs_of(kind, c), kind);
        largest = std::max(largest, r.largest);
        if (shape.mask == Mask::none && shape.tokens_k > 100)
          at_many_keys = std::max(at_many_keys, r.largest);
        trivial += r.trivial, unbounded += r.unbounded;
      }
    }
    const double percent = 100.0 / static_cast<double>(std::size(kShapes) * std::size(kKinds));
    std::printf(
        "%-10s error / bound: %.2g at most, %.2g in rows of > 100 keys; trivial %.0f %%, +inf %.0f %%\n",
        name_of(scheme).c_str(), largest, at_many_keys, percent * trivial, percent * unbounded);
  }
}

TEST(ErrorBound, HoldsForEveryRecipeOfAScheme) {
  using G = Granularity;
  constexpr G kAll[] = {G::tensor, G::head, G::block, G::token, G::channel, G::block_channel};
  for (const Scheme scheme : schemes()) {
    const SchemeInfo& info = scheme_info(scheme);
    for (const char* kind : {"mixed", "vtoken"}) {
      const auto check = [&](const Recipe& recipe, const char* what) {
        Case c = middling_case(scheme);
        c.desc.recipe = recipe;
        expect_within(c, inputs_of(kind, c), std::string(what) + " on " + kind);
      };
      for (const G g : kAll) {
        Recipe q = info.recipe, k = q, v = q;
        q.q = g, k.k = g, v.v = g;
        if (contains(info.q_set, g)) check(q, "q granularity");
        if (contains(info.k_set, g)) check(k, "k granularity");
        if (contains(info.v_set, g)) check(v, "v granularity");
      }
      Recipe other = info.recipe;
      if (info.smooths) other.smooth = other.smooth == Smooth::mean ? Smooth::anchor : Smooth::mean;
      if (info.rotates) other.rotate = other.rotate == Rotate::on ? Rotate::off : Rotate::on;
      if (info.equalises) other.equalise = other.equalise == Equalise::on ? Equalise::off : Equalise::on;
      check(other, "transformations");
    }
  }
}

/// One choice of a scheme's options that is not its default.
struct OptionCase {
  const char* name;
  Scheme scheme;
  SchemeOptions options;
  std::int64_t key_block = 64;
};
const OptionCase kOptions[] = {
    {"row_sum=codes", Scheme::int8_full, {.row_sum = SchemeOptions::RowSum::codes}},
    {"table=direct, 12 bits", Scheme::int8_lut, {.table = SchemeOptions::Table::direct, .table_bits = 12}},
    {"table=linear, 6 bits", Scheme::int8_lut, {.table = SchemeOptions::Table::linear, .table_bits = 6}},
    {"table=range, 4 bits", Scheme::int8_lut, {.table = SchemeOptions::Table::range, .table_bits = 4}},
    {"quotient=divide", Scheme::qflash, {.quotient = SchemeOptions::Quotient::divide}},
    {"rescale=accumulate", Scheme::qflash, {.rescale = SchemeOptions::Rescale::accumulate}},
    {"rescale=accumulate, one block", Scheme::qflash, {.rescale = SchemeOptions::Rescale::accumulate}, 256},
};

TEST(ErrorBound, HoldsForEveryOptionOfAScheme) {
  for (const OptionCase& option : kOptions) {
    double largest = 0, trivial = 0;
    for (const char* kind : kKinds) {
      Case c = middling_case(option.scheme);
      c.desc.options = option.options, c.desc.key_block = option.key_block;
      const Ratio r = expect_within(c, inputs_of(kind, c), std::string(option.name) + " on " + kind);
      largest = std::max(largest, r.largest), trivial += r.trivial;
    }
    std::printf("%-10s %s: error / bound %.2g at most, trivial %.0f %%\n", name_of(option.scheme).c_str(),
                option.name, largest, 100 * trivial / static_cast<double>(std::size(kKinds)));
  }
}

/// The bound of the first element of N(0, 1) data.
double bound_with(Scheme scheme, const SchemeOptions& options, std::int64_t key_block) {
  Case c = middling_case(scheme);
  c.desc.options = options, c.desc.key_block = key_block;
  return run(c, inputs_of("normal", c)).bound.front();
}

TEST(ErrorBound, KnowsWhatAnOptionCosts) {
  using O = SchemeOptions;
  const auto table = [](O::Table kind, std::int32_t bits) {
    return bound_with(Scheme::int8_lut, {.table = kind, .table_bits = bits}, 64);
  };
  EXPECT_LT(table(O::Table::direct, 12), table(O::Table::direct, 6)) << "finer steps";
  EXPECT_LT(table(O::Table::linear, 6), table(O::Table::direct, 6)) << "chords instead of steps";
  EXPECT_LT(table(O::Table::range, 6), table(O::Table::direct, 6)) << "no end of the table";
  const O accumulate{.rescale = O::Rescale::accumulate};
  EXPECT_GT(bound_with(Scheme::qflash, accumulate, 64), bound_with(Scheme::qflash, accumulate, 256))
      << "accumulated scales overflow from the second key block on";
}

TEST(ErrorBound, HoldsWithBiasWindowAndPackedSequences) {
  for (const Scheme scheme : schemes()) {
    Case windowed = middling_case(scheme);
    windowed.desc.window_left = 40, windowed.desc.window_right = 7;
    expect_within(windowed, inputs_of("normal", windowed), "window");

    Case packed = middling_case(scheme);
    packed.desc.mask = Mask::causal;
    packed.cu_seqlens_q = {0, 1, 1, 40, 70}, packed.cu_seqlens_k = {0, 30, 31, 31, 150};
    expect_within(packed, inputs_of("normal", packed), "packed");

    if (!scheme_info(scheme).additive_bias) continue;
    Case biased = middling_case(scheme);
    Random random(3);
    biased.bias.resize(static_cast<std::size_t>(2 * 70 * 150));
    for (float& b : biased.bias)
      b = random.unit() < 0.1 ? -HUGE_VALF : static_cast<float>(3 * random.normal());
    std::fill(biased.bias.begin(), biased.bias.begin() + 150, -HUGE_VALF);  // an empty row
    expect_within(biased, inputs_of("normal", biased), "bias");
  }
}

TEST(ErrorBound, CountsTheOutputsRounding) {
  const std::pair<DType, float (*)(float)> formats[] = {{DType::f16, round_to_f16},
                                                        {DType::bf16, round_to_bf16}};
  for (const auto& [format, round] : formats) {
    for (const Scheme scheme : {Scheme::f32, Scheme::int8}) {
      Case c = middling_case(scheme);
      c.desc.output = format;
      const Inputs in = inputs_of("normal", c);
      Outcome result = run(c, in);
      for (float& o : result.o) o = round(o);
      EXPECT_LE(ratio_of(result, in).largest, 1) << name_of(scheme);
    }
  }
  Case c = middling_case(Scheme::f32);
  c.desc.output = DType::f16;
  Inputs in = inputs_of("normal", c);
  for (float& v : in.v) v *= 1e5f;
  for (const float bound : run(c, in).bound) ASSERT_EQ(bound, HUGE_VALF) << "f16 holds no 1e5";
}

/// softmax(q k') v of one head in long double, the naive way.
std::vector<long double> attention(const Case& c, const Inputs& in) {
  const std::int64_t m = c.desc.tokens_q, n = c.desc.tokens_k, d = c.desc.head_dim, dv = c.desc.head_dim_v;
  std::vector<long double> o(static_cast<std::size_t>(m * dv));
  for (std::int64_t i = 0; i < m; ++i) {
    long double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      long double score = 0;
      for (std::int64_t t = 0; t < d; ++t)
        score += static_cast<long double>(in.q[static_cast<std::size_t>(i * d + t)]) *
                 in.k[static_cast<std::size_t>(j * d + t)];
      const long double weight = std::exp(score * c.desc.softmax_scale);
      sum += weight;
      for (std::int64_t t = 0; t < dv; ++t)
        o[static_cast<std::size_t>(i * dv + t)] += weight * in.v[static_cast<std::size_t>(j * dv + t)];
    }
    for (std::int64_t t = 0; t < dv; ++t) o[static_cast<std::size_t>(i * dv + t)] /= sum;
  }
  return o;
}

TEST(ErrorBound, HoldsForTheOracleAgainstLongDouble) {
  Case c = case_of(Scheme::exact, {1, 1, 20, 300, 32, 16, 128, Mask::none});
  c.desc.output = DType::f64;
  for (const char* kind : {"normal", "sharp", "biasK", "vtoken"}) {
    const Inputs in = inputs_of(kind, c);
    const Outcome result = run(c, in);
    const std::vector<long double> truth = attention(c, in);
    for (std::size_t i = 0; i < truth.size(); ++i) {
      ASSERT_LE(std::fabs(result.exact[i] - truth[i]), result.bound[i]) << kind << ", element " << i;
      ASSERT_LT(result.bound[i], 1e-9);
    }
  }
}

/// A scale that is not the one the codes were made with, for token 3: four times it.
template <QuantizedTensor AttentionArgs::*operand>
void spoil_a_scale(AttentionArgs& args) {
  const QuantizedTensor& x = args.*operand;
  static_cast<float*>(x.scales.data)[3 * x.scales.stride[2]] *= 4;
}

TEST(ErrorBound, IsExceededWhenAScaleIsWrong) {
  Case c = self_attention(Scheme::int8, 1, 8, 16);
  c.desc.tokens_k = 4;
  const Inputs in = inputs_of("uniform", c);
  EXPECT_LE(ratio_of(run(c, in), in).largest, 1);
  c.tamper = spoil_a_scale<&AttentionArgs::q>;
  EXPECT_GT(ratio_of(run(c, in), in).largest, 1) << "Q";
  c.tamper = spoil_a_scale<&AttentionArgs::k>;
  EXPECT_GT(ratio_of(run(c, in), in).largest, 1) << "K";
  c.tamper = spoil_a_scale<&AttentionArgs::v>;
  EXPECT_GT(ratio_of(run(c, in), in).largest, 1) << "V";
}

// --- Inputs made to err.

/// A problem and inputs for it.
struct Adversary {
  Case c;
  Inputs in;
};

double ratio(const Adversary& a) { return ratio_of(run(a.c, a.in), a.in).largest; }

/// A number of about `size` that `format` rounds by half a step: downwards where `down`, else upwards. `full`
/// is the number that a scale maps to the largest code.
float half_way(DType format, double size, double full, Round round) {
  const double nudge = round == Round::down ? 1 - 0x1p-12 : 1 + 0x1p-12;
  switch (format) {
    case DType::s8:
    case DType::s4: {
      const double step = full / largest_code(format);
      return static_cast<float>((std::floor(size / step) + 0.5) * step * nudge);
    }
    case DType::e4m3:
      return static_cast<float>(std::exp2(std::floor(std::log2(size))) * (1 + 0x1p-4) * nudge);
    case DType::bf16:
      return static_cast<float>(std::exp2(std::floor(std::log2(size))) * (1 + 0x1p-8 * nudge));
    default:
      return static_cast<float>(std::exp2(std::floor(std::log2(size))) * (1 + 0x1p-11 * nudge));
  }
}

/// The scheme with every transformation off, so that inputs meet its codes as they are.
Case bare_case(Scheme scheme, std::int64_t keys, std::int64_t dim, std::int64_t dim_v) {
  Case c = self_attention(scheme, 1, 1, dim);
  c.desc.tokens_k = keys, c.desc.head_dim_v = dim_v;
  c.desc.recipe.smooth = Smooth::none;
  c.desc.recipe.rotate = Rotate::off;
  c.desc.recipe.equalise = Equalise::off;
  return c;
}

/// Two keys of equal mass whose scores err by as much as they can, in opposite directions: every channel of q
/// and k lies half way between two codes, k on the side that helps with q's sign and q with k's. V is +1 and
/// -1; in its second channel it lies half way too.
Adversary opposite_keys(Scheme scheme, double softmax_scale) {
  constexpr std::int64_t kDim = 16;
  constexpr double kFull = 448, kSize = 300;  // the largest element of a token, and the others
  const SchemeInfo& info = scheme_info(scheme);
  Adversary a{bare_case(scheme, 2, kDim, 2), {}};
  a.c.desc.softmax_scale = static_cast<float>(softmax_scale / (kFull * kFull));
  std::vector<float> k;
  for (std::int64_t c = 0; c < kDim; ++c) {
    const double q_sign = c % 2 ? -1 : 1, k_sign = c % 4 < 2 ? -1 : 1;
    const Round round = q_sign == k_sign ? Round::down : Round::up;
    // One channel each holds the largest element, which is exact.
    a.in.q.push_back(static_cast<float>(q_sign) *
                     (c == 0 ? float{kFull} : half_way(info.qk, kSize, kFull, round)));
    k.push_back(static_cast<float>(k_sign) *
                (c == 3 ? float{kFull} : half_way(info.qk, kSize, kFull, round)));
  }
  a.in.k = k;
  for (const float x : k) a.in.k.push_back(-x);
  for (const float sign : {1.0f, -1.0f}) {
    const Round outwards = sign < 0 ? Round::up : Round::down;
    a.in.v.push_back(sign), a.in.v.push_back(sign * half_way(info.v, 0.8, 1, outwards));
  }
  return a;
}

/// One key that every code is measured against, and a block of others whose weight is just too small for a
/// code: `unit` is the code of 1.
Adversary lost_keys(Scheme scheme, double unit, std::int64_t keys) {
  Adversary a{bare_case(scheme, keys, 1, 1), {}};
  a.c.desc.softmax_scale = 1;
  a.in.q = {1};
  a.in.k.assign(static_cast<std::size_t>(keys), static_cast<float>(-std::log(2.2 * unit)));
  a.in.v.assign(static_cast<std::size_t>(keys), 1);
  a.in.k[0] = 0, a.in.v[0] = -1;
  return a;
}

/// The same of codes that keys' places round: every key errs by as much as its place allows, to the side on
/// which the errors of all add up.
Adversary misplaced_keys(Scheme scheme, double unit, std::int64_t keys) {
  constexpr double kBeside = 0.02;  // of a code: what kernels' weights may be off is less
  Adversary a = lost_keys(scheme, unit, keys);
  for (std::int64_t j = 1; j < keys; ++j) {
    const double threshold = rounding_threshold(static_cast<int>(j % kPlaces));
    const bool wins = threshold < 0.5;
    const auto at = static_cast<std::size_t>(j);
    a.in.k[at] = static_cast<float>(std::log((threshold + (wins ? kBeside : -kBeside)) / unit));
    a.in.v[at] = wins ? -1.0f : 1.0f;
  }
  return a;
}

/// Climbs from `a`: changes one number at a time and keeps what brings the error nearer to its bound. No step
/// may pass it.
double climb(Adversary a, int steps) {
  Random random(7);
  double best = ratio(a);
  for (int i = 0; i < steps; ++i) {
    Adversary next = a;
    std::vector<float>* parts[] = {&next.in.q, &next.in.k, &next.in.v};
    std::vector<float>& x = *parts[static_cast<int>(3 * random.unit())];
    float& value = x[static_cast<std::size_t>(static_cast<double>(x.size()) * random.unit())];
    // Far and near: from another sign to the last place of f32.
    value *= random.unit() < 0.2 ? -1.0f
                                 : static_cast<float>(1 + random.normal() * std::exp2(-24 * random.unit()));
    const double r = ratio(next);
    EXPECT_LE(r, 1) << name_of(a.c.desc.scheme) << " at step " << i;
    if (r >= best) best = r, a = next;
  }
  return best;
}

/// A small problem with the scheme's default recipe, to climb from.
Adversary ordinary(Scheme scheme) {
  Adversary a{case_of(scheme, {1, 1, 1, 4, 16, 4, 128, Mask::none}), {}};
  a.in = inputs_of("normal", a.c);
  return a;
}

/// The least that is asked of the search: about 0.8 of what it finds.
double floor_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::f32:
      return 0.35;
    case Scheme::qflash:
    case Scheme::qattn:
      return 0.45;
    default:
      return 0.55;
  }
}

TEST(ErrorBound, IsNearlyReachedByInputsMadeToErr) {
  for (const Scheme scheme : schemes()) {
    constexpr double kScales[] = {0.02, 0.2, 1.0, 8.0};
    const int steps =
        scheme == Scheme::qflash ? 20 : 200;  // qflash's bound surveys its exponential each time
    double opposite = 0, lost = 0, climbed = 0;
    for (const double scale : kScales) opposite = std::max(opposite, ratio(opposite_keys(scheme, scale)));
    for (const double unit : {127.0, 255.0})
      lost = std::max({lost, ratio(lost_keys(scheme, unit, 100)), ratio(misplaced_keys(scheme, unit, 100))});
    for (const double scale : kScales)
      climbed = std::max(climbed, climb(opposite_keys(scheme, scale), steps));
    const double from_ordinary = climb(ordinary(scheme), steps);
    std::printf(
        "%-10s error / bound: opposite keys %.2f, lost keys %.2f, climbed %.2f, from the default recipe "
        "%.2f\n",
        name_of(scheme).c_str(), opposite, lost, climbed, from_ordinary);
    const double best = std::max({opposite, lost, climbed, from_ordinary});
    EXPECT_GT(best, floor_of(scheme)) << name_of(scheme);
    EXPECT_LE(best, 1) << name_of(scheme);
  }
}

}  // namespace
}  // namespace octet::testing
