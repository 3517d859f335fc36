#include "accuracy/robustness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "accuracy/random.h"
#include "common/real.h"

namespace octet::tool {
namespace {

constexpr std::int64_t kQueries = 64, kKeys = 1024, kDim = 64;
constexpr std::int64_t kHiddenEvery = 3;
constexpr float kHidden = -2, kLeast = 1, kMost = 2;
// What V's and the output's codes may add to a mean: each at most half a step of 2 / 127, and as much for
// P's.
constexpr double kTolerance = 0.03;

struct Setting {
  Data data;
  std::vector<std::uint8_t> visible;
  ProblemInput input;
};

void scale_to(std::vector<float>& x, double largest) {
  float amax = 0;
  for (const float v : x) amax = std::max(amax, std::fabs(v));
  for (float& v : x) v = static_cast<float>(v * (largest / amax));
}

/// Inputs whose largest |q| times largest |k| is `product`. `out` stays where it is: its views point into it.
void make(double product, std::uint64_t seed, Setting& out) {
  DataSpec spec;
  spec.queries = kQueries, spec.keys = kKeys, spec.dim = kDim, spec.seed = seed;
  out.data = generate(spec);
  scale_to(out.data.q, std::sqrt(product)), scale_to(out.data.k, std::sqrt(product));
  out.visible.resize(static_cast<std::size_t>(kKeys));
  Random random({seed});
  for (std::int64_t j = 0; j < kKeys; ++j) {
    const bool hidden = j % kHiddenEvery == 0;
    out.visible[static_cast<std::size_t>(j)] = hidden ? 0 : 1;
    for (std::int64_t c = 0; c < kDim; ++c)
      out.data.v[static_cast<std::size_t>(j * kDim + c)] =
          hidden ? kHidden : static_cast<float>(random.uniform(kLeast, kMost));
  }
  const auto view = [](const std::vector<float>& x, std::int64_t tokens) {
    return view_bhsd(x.data(), DType::f32, {1, 1, tokens, kDim});
  };
  out.input.q = view(out.data.q, kQueries), out.input.k = view(out.data.k, kKeys);
  out.input.v = view(out.data.v, kKeys);
  out.input.mask = view_bhsd(out.visible.data(), DType::boolean, {1, 1, 1, kKeys});
}

struct Seeds {
  std::vector<ErrorSums> errors;
  long outside = 0, elements = 0;
  int seeds_outside = 0;
};

Status add_seed(const Variant& variant, const Setting& setting, Seeds& seeds) {
  Result<AttentionDesc> described = describe(Scheme::f32, setting.input.q, setting.input.k, setting.input.v);
  if (!described.ok()) return described.status();
  described.value().bias = AttentionDesc::Bias::boolean;
  Result<AttentionDesc> desc = variant.applied_to(described.value());
  if (!desc.ok()) return desc.status();
  Threads one(1);
  Result<Output> exact = attend_exactly(described.value(), setting.input, one);
  if (!exact.ok()) return exact.status();
  Result<Prepared> prepared = prepare(desc.value(), {});
  if (!prepared.ok()) return prepared.status();
  Result<Output> output = attend(prepared.value(), setting.input, one);
  if (!output.ok()) return output.status();
  seeds.errors.push_back(pooled(compare(output.value(), exact.value(), {})));
  long outside = 0;
  for (std::int64_t i = 0; i < kQueries * kDim; ++i) {
    const double x = real_at(output.value().o, i);
    outside += !(x >= kLeast - kTolerance && x <= kMost + kTolerance);  // note: NaN is outside
  }
  seeds.outside += outside, seeds.elements += kQueries * kDim;
  seeds.seeds_outside += outside > 0;
  return {};
}

}  // namespace

Result<std::vector<Json>> run_robustness(const SuiteSize& size, int threads) {
  (void)threads;  // note: a few seconds in all
  std::vector<Json> documents;
  for (int exponent = -3; exponent <= 5; ++exponent) {
    Json document;
    document["name"] = fmt::format("robustness/1e{}", exponent);
    document["seeds"] = size.seeds;
    for (const Scheme scheme : {Scheme::integer, Scheme::qflash}) {
      Seeds seeds;
      for (int seed = 1; seed <= size.seeds; ++seed) {
        Setting setting;
        make(std::pow(10.0, exponent), static_cast<std::uint64_t>(seed), setting);
        if (Status s = add_seed(variant_of(scheme), setting, seeds); !s.ok()) return s;
      }
      Json row = {{"name", octet::name_of(scheme)}, {"scheme", octet::name_of(scheme)}};
      row.update(pooled_figures(seeds.errors));
      row["outside"] = static_cast<double>(seeds.outside) / static_cast<double>(seeds.elements);
      row["seeds_outside"] = seeds.seeds_outside;
      document["rows"].push_back(std::move(row));
    }
    documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace octet::tool
