#include "accuracy/experiment.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "accuracy/random.h"
#include "common/progress.h"
#include "common/recipe_text.h"

namespace octet::tool {
namespace {

/// What one variant gave on one seed.
struct Cell {
  ErrorSums sums;
  bool has_bound = false;
  Status status;
};

/// One (experiment, seed).
struct Job {
  std::size_t experiment;
  int seed;
};

/// Swin's first block of a 7 x 7 window: bias N(0, 1) for each of the 13 x 13 relative positions, and the
/// last three rows of the window, which the shift took from elsewhere, hidden from the first four and the
/// other way round.
std::vector<float> swin_bias(const DataSpec& data) {
  constexpr std::int64_t kSide = 7, kTokens = kSide * kSide, kSpan = 2 * kSide - 1, kKeptRows = 4;
  std::vector<float> bias(static_cast<std::size_t>(data.heads * kTokens * kTokens));
  Random random({data.seed, static_cast<std::uint64_t>(data.heads)});
  for (std::int64_t h = 0; h < data.heads; ++h) {
    std::vector<double> table(static_cast<std::size_t>(kSpan * kSpan));
    for (double& x : table) x = random.normal();
    for (std::int64_t i = 0; i < kTokens; ++i)
      for (std::int64_t j = 0; j < kTokens; ++j) {
        const std::int64_t down = i / kSide - j / kSide + kSide - 1,
                           right = i % kSide - j % kSide + kSide - 1;
        const bool hidden = (i / kSide < kKeptRows) != (j / kSide < kKeptRows);
        bias[static_cast<std::size_t>((h * kTokens + i) * kTokens + j)] =
            hidden ? -std::numeric_limits<float>::infinity()
                   : static_cast<float>(table[static_cast<std::size_t>(down * kSpan + right)]);
      }
  }
  return bias;
}

/// The inputs of a job: owns what the views point to.
struct JobInput {
  Data data;
  std::vector<float> bias;
  ProblemInput input;

  JobInput(const Experiment& e, const DataSpec& spec) : data(generate(spec)) {
    const auto view = [&](const std::vector<float>& x, std::int64_t heads, std::int64_t tokens) {
      return view_bhsd(x.data(), DType::f32, {1, heads, tokens, spec.dim});
    };
    input.q = view(data.q, spec.heads * spec.group, spec.queries);
    input.k = view(data.k, spec.heads, spec.keys), input.v = view(data.v, spec.heads, spec.keys);
    if (e.bias == ScoreBias::none) return;
    bias = swin_bias(spec);
    input.mask = view_bhsd(bias.data(), DType::f32, {1, spec.heads, spec.queries, spec.keys});
  }
};

Result<AttentionDesc> problem_of(const Experiment& e, const ProblemInput& input) {
  Result<AttentionDesc> described = describe(Scheme::f32, input.q, input.k, input.v);
  if (!described.ok()) return described.status();
  AttentionDesc desc = described.take();
  desc.mask = e.mask;
  if (e.softmax_scale) desc.softmax_scale = *e.softmax_scale;
  if (input.mask.data) desc.bias = AttentionDesc::Bias::additive;
  return desc;
}

/// Multiplications of one seed, about.
double cost_of(const Experiment& e) {
  return static_cast<double>(e.data.heads * e.data.group * e.data.queries) *
         static_cast<double>(e.data.keys * e.data.dim) * static_cast<double>(e.variants.size());
}

/// Every variant on one seed. Error: the reference's.
Status run_job(const Experiment& e, int seed, std::vector<Cell>& cells) {
  DataSpec spec = e.data;
  spec.seed += static_cast<std::uint64_t>(seed);
  const JobInput job(e, spec);
  Threads one(1);
  Result<AttentionDesc> problem = problem_of(e, job.input);
  if (!problem.ok()) return problem.status();
  Result<Output> exact = attend_exactly(problem.value(), job.input, one);
  if (!exact.ok()) return exact.status();
  const WithBound bound = seed == 0 ? e.bound : WithBound::no;
  for (std::size_t i = 0; i < e.variants.size(); ++i) {
    Result<AttentionDesc> desc = e.variants[i].applied_to(problem.value());
    if (!desc.ok()) return desc.status();
    Result<Measured> measured = measure(desc.value(), job.input, exact.value(), bound, one);
    if (measured.ok())
      cells[i].sums = measured.value().all(), cells[i].has_bound = measured.value().has_bound;
    else
      cells[i].status = measured.status();
  }
  return {};
}

/// The figures of a row that are wanted of single seeds too.
Json figures_of(const ErrorSums& s) {
  Json json;
  json["relative_rmse"] = s.relative_rmse(), json["relative_l1"] = s.relative_l1();
  json["rmse"] = s.rmse(), json["sqnr_db"] = s.sqnr_db();
  return json;
}

Json row_json(const Variant& variant, const std::vector<const Cell*>& cells) {
  Json json;
  json["name"] = variant.name;
  json["scheme"] = octet::name_of(variant.scheme);
  Result<Recipe> recipe = default_recipe_of(variant.scheme);
  json["recipe"] = recipe_text(variant.scheme, variant.recipe ? *variant.recipe : recipe.value());
  json["options"] = scheme_options_text(variant.scheme, variant.options);
  json["key_block"] = variant.key_block;
  std::vector<ErrorSums> seeds;
  for (const Cell* cell : cells) {
    if (!cell->status.ok()) {
      json["refused"] = cell->status.message();
      return json;
    }
    seeds.push_back(cell->sums);
  }
  json.update(pooled_figures(seeds));
  if (cells.front()->has_bound) {
    json["max_bound"] = seeds.front().largest_bound;
    json["max_error_over_bound"] = seeds.front().largest_ratio;
  }
  return json;
}

Json data_json(const DataSpec& d) {
  Json json;
  json["distribution"] = name_of(d.kind);
  json["heads"] = d.heads, json["queries"] = d.queries, json["keys"] = d.keys, json["dim"] = d.dim;
  if (d.group > 1) json["group"] = d.group;
  json["first_seed"] = d.seed;
  if (d.kind == Distribution::sink) json["sink_nats"] = d.sink_nats;
  if (d.kind == Distribution::spread) json["scale"] = d.scale;
  json["rounded_to_f16"] = d.as_f16;
  return json;
}

using Cells = std::vector<std::vector<Cell>>;  // [seed][variant]

Json experiment_json(const Experiment& e, const Cells& cells) {
  Json json;
  json["name"] = e.name, json["data"] = data_json(e.data), json["seeds"] = e.seeds;
  if (e.softmax_scale) json["softmax_scale"] = *e.softmax_scale;
  json["causal"] = e.mask == Mask::causal;
  if (e.bias == ScoreBias::swin) json["bias"] = "swin";
  for (std::size_t v = 0; v < e.variants.size(); ++v) {
    std::vector<const Cell*> seeds;
    for (const auto& seed : cells) seeds.push_back(&seed[v]);
    json["rows"].push_back(row_json(e.variants[v], seeds));
  }
  return json;
}

}  // namespace

Json pooled_figures(const std::vector<ErrorSums>& seeds) {
  ErrorSums all;
  Json least, most;
  for (const ErrorSums& seed : seeds) {
    all.merge(seed);
    const Json one = figures_of(seed);
    for (const auto& [key, value] : one.items()) {
      const double x = value.get<double>();
      least[key] = least.contains(key) ? std::min(least[key].get<double>(), x) : x;
      most[key] = most.contains(key) ? std::max(most[key].get<double>(), x) : x;
    }
  }
  Json json = figures_of(all);
  json["max_abs_error"] = all.max_abs_error(), json["cosine"] = all.cosine();
  json["non_finite"] = all.non_finite;
  json["least"] = least, json["most"] = most;
  return json;
}

Result<std::vector<Json>> run_experiments(const std::vector<Experiment>& experiments, int threads,
                                          const std::string& what) {
  std::vector<Cells> cells;
  std::vector<Job> jobs;
  for (std::size_t e = 0; e < experiments.size(); ++e) {
    cells.emplace_back(static_cast<std::size_t>(experiments[e].seeds),
                       std::vector<Cell>(experiments[e].variants.size()));
    for (int seed = 0; seed < experiments[e].seeds; ++seed) jobs.push_back({e, seed});
  }
  // Long jobs first: one that starts last would leave all threads but its own idle.
  std::stable_sort(jobs.begin(), jobs.end(), [&](const Job& a, const Job& b) {
    return cost_of(experiments[a.experiment]) > cost_of(experiments[b.experiment]);
  });
  Progress progress(what, static_cast<std::int64_t>(jobs.size()));
  std::mutex lock;  // of progress and failure
  Status failure;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      const Experiment& e = experiments[jobs[i].experiment];
      const Status status =
          run_job(e, jobs[i].seed, cells[jobs[i].experiment][static_cast<std::size_t>(jobs[i].seed)]);
      const std::scoped_lock hold(lock);
      if (!status.ok()) failure = status;
      if (!failure.ok()) return;
      progress.advance(1, e.name);
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < Threads(threads).count(); ++t) others.emplace_back(work);
    work();
  }
  if (!failure.ok()) return failure;
  std::vector<Json> documents;
  for (std::size_t e = 0; e < experiments.size(); ++e)
    documents.push_back(experiment_json(experiments[e], cells[e]));
  return documents;
}

}  // namespace octet::tool
