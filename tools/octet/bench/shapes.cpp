#include "bench/shapes.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "common/format.h"
#include "common/recipe_text.h"
#include "common/run.h"
#include "common/sentence.h"
#include "common/table.h"
#include "common/text.h"

namespace octet::tool {
namespace {

/// Queries, keys and values: uniform in [-4, 4), as QFlash's script draws them, or normal.
enum class Draw { uniform, normal };

struct Workload {
  const char* suite;
  const char* name;
  std::int64_t batch, heads_q, heads_kv, tokens_q, tokens_k, head_dim;
  Mask mask;
  Draw draw;
};

/// vit: A1 to A7 of QFlash (ViT and DeiT tiny, small, base; Swin-T and Swin-S, stages 1 to 4), batch 1.
/// llm-prefill and decode: the shapes of a model of 8 billion parameters (32 heads over 8, dim 128), a
/// quarter of its heads in prefill, so that the scalar reference and float64 finish in minutes.
constexpr Workload kAccuracyWorkloads[] = {
    {"vit", "A1", 1, 3, 3, 197, 197, 64, Mask::none, Draw::uniform},
    {"vit", "A2", 1, 6, 6, 197, 197, 64, Mask::none, Draw::uniform},
    {"vit", "A3", 1, 12, 12, 197, 197, 64, Mask::none, Draw::uniform},
    {"vit", "A4", 64, 3, 3, 49, 49, 32, Mask::none, Draw::uniform},
    {"vit", "A5", 16, 6, 6, 49, 49, 32, Mask::none, Draw::uniform},
    {"vit", "A6", 4, 12, 12, 49, 49, 32, Mask::none, Draw::uniform},
    {"vit", "A7", 1, 24, 24, 49, 49, 32, Mask::none, Draw::uniform},
    {"llm-prefill", "prefill-512", 1, 8, 2, 512, 512, 128, Mask::causal, Draw::normal},
    {"llm-prefill", "prefill-1k", 1, 8, 2, 1024, 1024, 128, Mask::causal, Draw::normal},
    {"llm-prefill", "prefill-2k", 1, 8, 2, 2048, 2048, 128, Mask::causal, Draw::normal},
    {"decode", "decode-1k", 1, 32, 8, 1, 1024, 128, Mask::causal, Draw::normal},
    {"decode", "decode-4k", 1, 32, 8, 1, 4096, 128, Mask::causal, Draw::normal},
    {"decode", "decode-16k", 1, 32, 8, 1, 16384, 128, Mask::causal, Draw::normal},
};

constexpr const char* kDefaultSchemes = "f32,int8,int8_shift,integer";

/// The options as numbers.
struct Settings {
  std::vector<Scheme> schemes;
  std::vector<Workload> workloads;
  std::int64_t groups = 0, seed = 0;
  double group_seconds = 0;
};

struct Row {
  Workload workload;
  Scheme scheme;
  std::string backend;
  double seconds = 0, gops = 0, relative_rmse = 0;
};

Result<std::vector<Scheme>> chosen_schemes(const std::string& text) {
  std::vector<Scheme> schemes;
  for (const std::string& name : split(text.empty() ? kDefaultSchemes : text, ',')) {
    Result<Scheme> scheme = parse_scheme(name);
    if (!scheme.ok()) return scheme.status();
    schemes.push_back(scheme.value());
  }
  return schemes;
}

Result<std::vector<Workload>> chosen_workloads(const ShapesOptions& options) {
  std::vector<Workload> of_suite, chosen;
  std::string names;
  for (const Workload& w : kAccuracyWorkloads) {
    if (options.suite != w.suite) continue;
    of_suite.push_back(w);
    names += (names.empty() ? "" : ", ") + std::string(w.name);
  }
  if (options.workloads.empty()) return of_suite;
  for (const std::string& name : split(options.workloads, ',')) {
    const auto found =
        std::find_if(of_suite.begin(), of_suite.end(), [&](const Workload& w) { return name == w.name; });
    if (found == of_suite.end())
      return broken("--workloads", in_quotes(name), "the suite has none of this name",
                    "choose from " + names);
    chosen.push_back(*found);
  }
  return chosen;
}

Result<Settings> settings_of(const ShapesOptions& options) {
  Result<std::vector<Workload>> workloads = chosen_workloads(options);
  if (!workloads.ok()) return workloads.status();
  Result<std::vector<Scheme>> schemes = chosen_schemes(options.schemes);
  if (!schemes.ok()) return schemes.status();
  Result<std::int64_t> groups = parse_integer("--groups", options.groups, {1, 1000});
  if (!groups.ok()) return groups.status();
  Result<std::int64_t> group_ms = parse_integer("--group-ms", options.group_ms, {0, 60'000});
  if (!group_ms.ok()) return group_ms.status();
  Result<std::int64_t> seed = parse_integer("--seed", options.seed, {0});
  if (!seed.ok()) return seed.status();
  return Settings{schemes.take(), workloads.take(), groups.value(), seed.value(),
                  1e-3 * static_cast<double>(group_ms.value())};
}

Status fill(HostTensor& tensor, const std::vector<std::int64_t>& shape, Draw draw, std::mt19937_64& random) {
  Result<HostTensor> made = make_host_tensor(DType::f32, shape);
  if (!made.ok()) return made.status();
  tensor = made.take();
  std::uniform_real_distribution<float> uniform(-4, 4);
  std::normal_distribution<float> normal;
  for (float& x : tensor.values<float>()) x = draw == Draw::uniform ? uniform(random) : normal(random);
  return {};
}

Result<ProblemInput> drawn(const Workload& w, std::int64_t seed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  ProblemInput input;
  const std::array<std::int64_t, 4> q{w.batch, w.heads_q, w.tokens_q, w.head_dim};
  const std::array<std::int64_t, 4> k{w.batch, w.heads_kv, w.tokens_k, w.head_dim};
  if (Status s = fill(input.q_tensor, {q.begin(), q.end()}, w.draw, random); !s.ok()) return s;
  if (Status s = fill(input.k_tensor, {k.begin(), k.end()}, w.draw, random); !s.ok()) return s;
  if (Status s = fill(input.v_tensor, {k.begin(), k.end()}, w.draw, random); !s.ok()) return s;
  input.q = view_bhsd(input.q_tensor.bytes.data(), DType::f32, q);
  input.k = view_bhsd(input.k_tensor.bytes.data(), DType::f32, k);
  input.v = view_bhsd(input.v_tensor.bytes.data(), DType::f32, k);
  return input;
}

/// Multiplications and additions of both products over the pairs that are visible, in units of 1e9.
double giga_operations(const Workload& w) {
  double pairs = 0;
  for (std::int64_t m = 0; m < w.tokens_q; ++m) {
    const std::int64_t seen = w.mask == Mask::causal ? m + 1 + w.tokens_k - w.tokens_q : w.tokens_k;
    pairs += static_cast<double>(std::clamp<std::int64_t>(seen, 0, w.tokens_k));
  }
  return 1e-9 * 4 * pairs * static_cast<double>(w.batch * w.heads_q * w.head_dim);
}

/// The median over groups of a call's seconds in the group; one call warms up. A group repeats calls until it
/// is long enough for the clock and the scheduler not to matter.
Result<double> timed(const Prepared& prepared, const ProblemInput& input, const Settings& settings,
                     Threads& threads) {
  std::vector<double> groups;
  for (std::int64_t g = 0; g < settings.groups; ++g) {
    double seconds = 0;
    int calls = 0;
    do {
      Result<Output> output = attend(prepared, input, threads);
      if (!output.ok()) return output.status();
      seconds += output.value().seconds;  // quantisation counted, the output's allocation not
      ++calls;
    } while (seconds < settings.group_seconds);
    groups.push_back(seconds / calls);
  }
  const auto middle = groups.begin() + static_cast<std::ptrdiff_t>(groups.size() / 2);
  std::nth_element(groups.begin(), middle, groups.end());
  return *middle;
}

Result<Row> measured(const Workload& w, Scheme scheme, const ProblemInput& input, const Output& exact,
                     const ShapesOptions& options, const Settings& settings, Threads& threads) {
  Result<AttentionDesc> desc = describe(scheme, input.q, input.k, input.v);
  if (!desc.ok()) return desc.status();
  desc.value().mask = w.mask;
  Result<Prepared> prepared = prepare(desc.value(), options.backend);
  if (!prepared.ok()) return prepared.status();
  Result<Output> warm = attend(prepared.value(), input, threads);
  if (!warm.ok()) return warm.status();
  Row row{w, scheme, prepared.value().plan.backend(), 0, 0, 0};
  row.relative_rmse = pooled(compare(warm.value(), exact, {})).relative_rmse();
  Result<double> seconds = timed(prepared.value(), input, settings, threads);
  if (!seconds.ok()) return seconds.status();
  row.seconds = seconds.value();
  row.gops = giga_operations(w) / row.seconds;
  return row;
}

Status measure(const ShapesOptions& options, const Settings& settings, Threads& threads,
               std::vector<Row>& rows) {
  for (const Workload& w : settings.workloads) {
    Result<ProblemInput> input = drawn(w, settings.seed);
    if (!input.ok()) return input.status();
    Result<AttentionDesc> desc = describe(Scheme::exact, input.value().q, input.value().k, input.value().v);
    if (!desc.ok()) return desc.status();
    desc.value().mask = w.mask;
    Result<Output> exact = attend_exactly(desc.value(), input.value(), threads);
    if (!exact.ok()) return exact.status();
    for (Scheme scheme : settings.schemes) {
      Result<Row> row = measured(w, scheme, input.value(), exact.value(), options, settings, threads);
      if (!row.ok()) return row.status();
      rows.push_back(row.take());
    }
  }
  return {};
}

Json row_json(const Row& row, int threads) {
  const Workload& w = row.workload;
  return {{"suite", w.suite},
          {"workload", w.name},
          {"scheme", name_of(row.scheme)},
          {"backend", row.backend},
          {"batch", w.batch},
          {"heads", w.heads_q},
          {"heads_kv", w.heads_kv},
          {"tokens_q", w.tokens_q},
          {"tokens_k", w.tokens_k},
          {"head_dim", w.head_dim},
          {"causal", w.mask == Mask::causal},
          {"threads", threads},
          {"quantisation", "counted"},
          {"ms", 1e3 * row.seconds},
          {"gops", row.gops},
          {"relative_rmse", row.relative_rmse}};
}

std::string rows_text(const std::vector<Row>& rows, int threads) {
  Table table({{"workload", Align::left},
               {"shape", Align::left},
               {"scheme", Align::left},
               {"backend", Align::left},
               {"ms"},
               {"Gop/s"},
               {"relative RMSE"}});
  for (const Row& row : rows) {
    const Workload& w = row.workload;
    table.add({w.name,
               fmt::format("{}x{}x{}x{}{}", w.batch, w.heads_q, w.tokens_k, w.head_dim,
                           w.mask == Mask::causal ? " causal" : ""),
               name_of(row.scheme), row.backend, significant(1e3 * row.seconds), significant(row.gops),
               percent(row.relative_rmse)});
  }
  return fmt::format(
      "{}\nShape: batch x heads x keys x dim. {} thread{}; median of groups, quantisation counted; error "
      "against "
      "float64.\n",
      table.text(), threads, threads == 1 ? "" : "s");
}

}  // namespace

Status run_shapes(const ShapesOptions& options) {
  Result<Settings> settings = settings_of(options);
  if (!settings.ok()) return settings.status();
  Threads threads(options.threads);
  std::vector<Row> rows;
  if (Status s = measure(options, settings.value(), threads, rows); !s.ok()) return s;
  if (!options.json) return print(rows_text(rows, threads.count()));
  Json json = Json::array();
  for (const Row& row : rows) json.push_back(row_json(row, threads.count()));
  return print_json(json);
}

}  // namespace octet::tool
