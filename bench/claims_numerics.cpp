// Accuracy claims of the papers about bare exponentials and about FP8 without scales, which no scheme of the
// public interface computes, and about QFlash's codes: prints the JSON of the suite's part "numerics".
// Protocols: QFlash, section 3.3 (ShiftExp2); the LUT appendix (tables, delta uniform in [0, 8]);
// INT-FlashAttention, table 1 and 2 ("FlashAttention FP8" is a cast to e5m2 without any scale).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "accuracy/distributions.h"
#include "accuracy/part.h"
#include "accuracy/qflash_fixtures.h"
#include "accuracy/random.h"
#include "lanes/scalar.h"
#include "numerics/exp2.h"
#include "numerics/exp_table.h"
#include "numerics/formats.h"
#include "numerics/integer.h"
#include "numerics/shift_exp2.h"

namespace octet::tool {
namespace {

constexpr int kSeeds = 16;

// --- Errors of an exponential.

struct Errors {
  double squares = 0, largest = 0, least_relative = 0, most_relative = 0;
  long count = 0;

  void add(double value, double exact) {
    const double error = value - exact;
    squares += error * error, ++count;
    largest = std::max(largest, std::fabs(error));
    least_relative = std::min(least_relative, error / exact);
    most_relative = std::max(most_relative, error / exact);
  }
  Json json(const std::string& name) const {
    return {{"name", name},
            {"rmse", std::sqrt(squares / static_cast<double>(count))},
            {"max_abs_error", largest},
            {"least_relative", least_relative},
            {"most_relative", most_relative}};
  }
};

// --- ShiftExp2 (rows 18 and 19): every integer argument down to 8 octaves.

ShiftExp2Constants constants_of(double d) {
  return {static_cast<std::int32_t>(std::lround(1 / d)), static_cast<std::int32_t>(std::lround(-d * 0x1p16))};
}

template <class F>
Errors errors_over_octaves(double d, F&& exponential) {
  constexpr double kOctaves = 8;
  const ShiftExp2Constants c = constants_of(d);
  Errors errors;
  for (std::int32_t x = 0; - x * d <= kOctaves; --x)
    errors.add(static_cast<double>(exponential(x, c)) / c.one, std::exp2(x * d));
  return errors;
}

Json shift_exp2() {
  Json document = {{"name", "shift_exp2"}};
  // note: so fine that truncation to integers does not show: the line 1 + r/2 itself.
  document["rows"].push_back(errors_over_octaves(0x1p-20, shift_exp2_divide<std::int32_t>).json("ideal"));
  for (const auto& [name, d] : {std::pair{"A1-A3", 1.79e-4},
                                {"A4-A7", 2.53e-4},
                                {"D=5e-5", 5e-5},
                                {"D=2.27e-5", 2.27e-5},
                                {"D=1e-3", 1e-3}}) {
    document["rows"].push_back(
        errors_over_octaves(d, shift_exp2_multiply<std::int32_t>).json(std::string(name) + ", multiply"));
    document["rows"].push_back(
        errors_over_octaves(d, shift_exp2_divide<std::int32_t>).json(std::string(name) + ", divide"));
  }
  Errors ours, polynomial;
  for (std::int32_t z = 0; z <= 8 * 1024; ++z) {
    ours.add(IntegerScheme<ScalarLane>::exp2_u16(static_cast<std::uint16_t>(z)) / 32768.0,
             std::exp2(-z / 1024.0));
    polynomial.add(exp2_poly(-static_cast<float>(z) / 1024), std::exp2(-z / 1024.0));
  }
  document["rows"].push_back(ours.json("integer"));
  document["rows"].push_back(polynomial.json("exp2_poly"));
  return document;
}

// --- Tables (rows 59 and 60): delta uniform in [0, 8].

using Exponential = std::function<float(float)>;
struct Named {
  std::string name;
  Exponential exp;
};

template <class Build>
std::vector<float> table_of(std::int64_t entries, int bits, Build&& build) {
  std::vector<float> table(static_cast<std::size_t>(entries));
  build(table.data(), bits);
  return table;
}

std::vector<Named> tables() {
  std::vector<Named> all;
  for (const int bits : {8, 9, 10, 12}) {
    const auto t = table_of(direct_table_entries(bits), bits, build_direct_table);
    all.push_back({"direct " + std::to_string(bits),
                   [=](float x) { return direct_table_exp<ScalarLane>(t.data(), bits, x); }});
  }
  for (const int bits : {6, 8}) {
    const auto t = table_of(linear_table_entries(bits), bits, build_linear_table);
    all.push_back({"linear " + std::to_string(bits),
                   [=](float x) { return linear_table_exp<ScalarLane>(t.data(), bits, x); }});
  }
  {
    const auto t = table_of(linear_table_entries(8), 8, build_linear_table);
    all.push_back(
        {"linear 8+4", [=](float x) { return linear_table_exp_fixed<ScalarLane>(t.data(), 8, 4, x); }});
  }
  for (const int bits : {5, 8}) {
    std::vector<QuadraticSegment> t(static_cast<std::size_t>(quadratic_table_entries(bits)));
    build_quadratic_table(t.data(), bits);
    all.push_back({"quadratic " + std::to_string(bits),
                   [=](float x) { return quadratic_table_exp(t.data(), bits, x); }});
  }
  for (const int bits : {3, 4, 5, 6}) {
    const auto t = table_of(range_table_entries(bits), bits, build_range_table);
    all.push_back({"range " + std::to_string(bits),
                   [=](float x) { return range_table_exp<ScalarLane>(t.data(), bits, x); }});
  }
  return all;
}

Json table_errors() {
  constexpr int kDraws = 62500;  // a seed: 10^6 in all
  Json document = {{"name", "tables"}, {"seeds", kSeeds}};
  for (const Named& table : tables()) {
    Errors all;
    double least = INFINITY, most = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      Random random({seed});
      Errors one;
      for (int i = 0; i < kDraws; ++i) {
        const auto delta = static_cast<float>(random.uniform(0, 8));
        one.add(table.exp(delta), std::exp(-double{delta}));
        all.add(table.exp(delta), std::exp(-double{delta}));
      }
      const double rmse = std::sqrt(one.squares / one.count);
      least = std::min(least, rmse), most = std::max(most, rmse);
    }
    Json row = all.json(table.name);
    row["least"] = {{"rmse", least}}, row["most"] = {{"rmse", most}};
    document["rows"].push_back(std::move(row));
  }
  return document;
}

// --- Softmax with a table (row 62): sum of |p - exact| over a row, 4096 scores N(0, deviation).

Json softmax_errors(const std::string& name, double deviation) {
  constexpr int kKeys = 4096, kRows = 8;
  Json document = {{"name", name}, {"seeds", kSeeds}};
  for (const Named& table : tables()) {
    double all = 0, least = INFINITY, most = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      double error = 0;
      for (std::uint64_t row = 0; row < kRows; ++row) {
        Random random({seed, row});
        std::vector<double> scores(kKeys);
        for (double& s : scores) s = deviation * random.normal();
        const double peak = *std::max_element(scores.begin(), scores.end());
        double sum = 0, table_sum = 0;
        for (const double s : scores)
          sum += std::exp(s - peak), table_sum += double{table.exp(static_cast<float>(peak - s))};
        for (const double s : scores)
          error += std::fabs(double{table.exp(static_cast<float>(peak - s))} / table_sum -
                             std::exp(s - peak) / sum) /
                   kRows;
      }
      all += error / kSeeds, least = std::min(least, error), most = std::max(most, error);
    }
    document["rows"].push_back(
        {{"name", table.name}, {"l1", all}, {"least", {{"l1", least}}}, {"most", {{"l1", most}}}});
  }
  return document;
}

// --- FP8 without scales (rows 9 to 11): Q, K, V and P cast, f32 sums; L1 and RMSE ratios against float64.

struct Ratios {
  double error = 0, exact = 0, error_squares = 0, exact_squares = 0;
};

template <class Round>
void attend_unscaled(const DataSpec& spec, double scale, Round&& round, Ratios& sums) {
  const Data x = generate(spec);
  const auto d = static_cast<std::size_t>(spec.dim), n = static_cast<std::size_t>(spec.keys);
  std::vector<float> q = x.q, k = x.k, v = x.v;
  for (auto* m : {&q, &k, &v})
    for (float& a : *m) a = round(a);
  std::vector<double> exact_scores(n);
  std::vector<float> scores(n);
  for (std::size_t i = 0; i < static_cast<std::size_t>(spec.queries); ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      double exact = 0;
      float dot = 0;
      for (std::size_t c = 0; c < d; ++c) {
        exact += double{x.q[i * d + c]} * double{x.k[j * d + c]};
        dot += q[i * d + c] * k[j * d + c];
      }
      exact_scores[j] = scale * exact, scores[j] = static_cast<float>(scale) * dot;
    }
    const double exact_peak = *std::max_element(exact_scores.begin(), exact_scores.end());
    const float peak = *std::max_element(scores.begin(), scores.end());
    std::vector<double> exact_row(d);
    std::vector<float> row(d);
    double exact_sum = 0;
    float sum = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const double p = std::exp(exact_scores[j] - exact_peak);
      const float w = std::exp(scores[j] - peak), code = round(w);
      exact_sum += p, sum += w;
      for (std::size_t c = 0; c < d; ++c)
        exact_row[c] += p * double{x.v[j * d + c]}, row[c] += code * v[j * d + c];
    }
    for (std::size_t c = 0; c < d; ++c) {
      const double exact = exact_row[c] / exact_sum, error = double{row[c] / sum} - exact;
      sums.error += std::fabs(error), sums.exact += std::fabs(exact);
      sums.error_squares += error * error, sums.exact_squares += exact * exact;
    }
  }
}

template <class Round>
Json unscaled_row(const std::string& name, DataSpec spec, double scale, Round&& round) {
  Ratios all;
  double least = INFINITY, most = 0;
  for (spec.seed = 1; spec.seed <= kSeeds; ++spec.seed) {
    Ratios one;
    attend_unscaled(spec, scale, round, one);
    least = std::min(least, one.error / one.exact), most = std::max(most, one.error / one.exact);
    all.error += one.error, all.exact += one.exact;
    all.error_squares += one.error_squares, all.exact_squares += one.exact_squares;
  }
  return {{"name", name},
          {"relative_l1", all.error / all.exact},
          {"relative_rmse", std::sqrt(all.error_squares / all.exact_squares)},
          {"least", {{"relative_l1", least}}},
          {"most", {{"relative_l1", most}}}};
}

void add_unscaled(std::vector<Json>& experiments) {
  constexpr std::int64_t kLongest = 16384;
  for (const auto kind : {Distribution::normal, Distribution::uniform})
    for (const double scale : {1.0, 0.125})
      for (std::int64_t keys = 1024; keys <= kLongest; keys *= 2) {
        DataSpec spec;
        spec.kind = kind, spec.queries = 8, spec.keys = keys, spec.dim = 64;
        Json document = {{"name", "unscaled/" + std::string(name_of(kind)) + "/scale" +
                                      (scale == 1 ? "1" : "0.125") + "/n" + std::to_string(keys)},
                         {"seeds", kSeeds}};
        document["rows"].push_back(unscaled_row("e5m2", spec, scale, round_to_e5m2<float>));
        document["rows"].push_back(unscaled_row("e4m3", spec, scale, round_to_e4m3<float>));
        experiments.push_back(std::move(document));
      }
}

// --- BOPs (row 34): Q K' and P V of every layer of DeiT-S.

Json bops() {
  constexpr std::int64_t kLayers = 12, kTokens = 197, kWidth = 384, kProducts = 2;
  return {{"name", "bops"},
          {"rows",
           Json::array({{{"name", "DeiT-S"}, {"macs", kLayers * kProducts * kTokens * kTokens * kWidth}}})}};
}

/// Everything, or why the fixtures could not be run.
Result<std::vector<Json>> measure(const std::string& fixtures) {
  constexpr double kPeaky = 5.3;  // deviation of the scores of U(-4, 4) inputs, d = 64
  Result<Json> compared = compare_with_qflash_fixtures(fixtures);
  if (!compared.ok()) return compared.status();
  std::vector<Json> experiments;
  experiments.push_back(compared.take());
  experiments.push_back(bops());
  experiments.push_back(shift_exp2());
  experiments.push_back(table_errors());
  experiments.push_back(softmax_errors("softmax/normal", 1));
  experiments.push_back(softmax_errors("softmax/peaky", kPeaky));
  add_unscaled(experiments);
  return experiments;
}

}  // namespace
}  // namespace octet::tool

int main(int argc, char** argv) {
  using namespace octet::tool;
  constexpr int kUsageError = 2;
  if (argc != 3) {
    std::fputs("usage: claims_numerics FIXTURES COMMIT > numerics.json\n", stderr);
    return kUsageError;
  }
  const auto experiments = measure(argv[1]);
  if (!experiments.ok()) {
    std::fprintf(stderr, "claims_numerics: %s\n", experiments.status().message().c_str());
    return kUsageError;
  }
  const Json part = part_json({"numerics", "claims_numerics", argv[2], cpu_seconds()}, experiments.value());
  std::puts(part.dump(1).c_str());
}
