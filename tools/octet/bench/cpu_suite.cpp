#include "bench/cpu_suite.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "bench/caches.h"
#include "bench/exact_rows.h"
#include "bench/inputs.h"
#include "bench/peaks.h"
#include "bench/rows.h"
#include "bench/timing.h"
#include "common/machine.h"
#include "common/progress.h"
#include "common/sentence.h"

namespace octet::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBusyProcesses = 2;

/// One measurement: what is run, from numbers of which type, on how many threads, beside how many busy
/// processes.
struct Cell {
  const CpuVariant* variant = nullptr;
  std::int64_t key_block = 128;
  Quantisation quantisation = Quantisation::counted;
  int threads = 1;
  int busy = 0;
  DType input = DType::f32;  ///< of q, k, v where they are numbers, and of o
};

/// Key blocks that make a difference on a shape: one that holds all keys is as good as any wider one.
std::vector<std::int64_t> blocks_of(const CpuWorkload& w) {
  if (w.kind == Kind::decode) return {128};
  std::vector<std::int64_t> blocks{128, 256, 512, 1024};
  if (w.kind == Kind::longer) blocks = {128, 512};
  while (blocks.size() > 1 && blocks[blocks.size() - 2] >= w.tokens_k) blocks.pop_back();
  return blocks;
}

/// One thread with codes given, by key block; the narrowest and the widest block also with quantisation, the
/// widest on all threads and, with quantisation, from bf16, which engines hold. So many that the suite ends
/// within its minutes.
std::vector<Cell> cells_of(const CpuWorkload& w, const std::vector<const CpuVariant*>& variants, int all) {
  const std::vector<std::int64_t> blocks = blocks_of(w);
  std::vector<Cell> cells;
  for (const CpuVariant* v : variants) {
    for (const std::int64_t block : blocks) {
      const bool widest = block == blocks.back(), narrowest = block == blocks.front();
      cells.push_back({v, block, Quantisation::excluded, 1});
      if (widest && all > 1) cells.push_back({v, block, Quantisation::excluded, all});
      // Making codes costs nothing to speak of on longer shapes, and the keys of decode lie in memory as
      // codes.
      const bool counts = w.kind == Kind::vision || w.kind == Kind::prefill;
      if (counts && (widest || narrowest)) cells.push_back({v, block, Quantisation::counted, 1});
      if (counts && widest) cells.push_back({v, block, Quantisation::counted, 1, 0, DType::bf16});
    }
  }
  return cells;
}

void run_inline(void*, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
  for (std::int64_t i = 0; i < count; ++i) body(context, i);
}

/// What of a call is run.
enum class Part { all, packed, cached };

/// A plan with what its calls need.
struct Runner {
  AttentionPlan plan;
  Workspace workspace;
  Operands operands;
  HostTensor o;
  AttentionArgs args;
  Part part = Part::all;
  std::vector<KvCache> caches{};  ///< copies, as of the operands
  std::size_t turn = 0;

  Status run() {
    if (part == Part::cached) return caches[turn++ % caches.size()].attend(plan, args);
    const std::size_t copy = turn++ % operands.k.size();
    args.k = operands.k[copy], args.v = operands.v[copy];
    return part == Part::packed ? plan.run_packed(args) : plan.run(args);
  }
};

class Suite {
 public:
  Suite(const CpuSuiteOptions& options, int threads)
      : options_(options), helpers_(threads), start_(Clock::now()) {}

  Status measure(const CpuWorkload& workload, const std::vector<Cell>& cells, Progress& progress) {
    Result<CpuInputs> inputs = draw_inputs(workload, options_.seed, helpers_);
    if (!inputs.ok()) return inputs.status();
    runner_.reset();  // its operands are the last workload's
    workload_ = &workload, inputs_ = inputs.take(), exact_.reset();
    for (const Cell& cell : cells) {
      progress.advance(1, workload.name);
      Json row = row_of(workload, cell);
      const Status status = fill(cell, row);
      if (!status.ok() && status.code() == Code::internal) return status;
      if (!status.ok()) row["skipped"] = status.message();
      rows_.push_back(std::move(row));
    }
    return {};
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  Json take_rows() { return std::move(rows_); }

 private:
  Json row_of(const CpuWorkload& w, const Cell& cell) const {
    return {{"suite", "cpu"},
            {"workload", w.name},
            {"scheme", name_of(cell.variant->scheme)},
            {"variant", cell.variant->label},
            {"backend", nullptr},
            {"batch", w.batch},
            {"heads", w.heads_q},
            {"heads_kv", w.heads_kv},
            {"tokens_q", w.tokens_q},
            {"tokens_k", w.tokens_k},
            {"head_dim", w.head_dim},
            {"causal", w.mask == Mask::causal},
            {"bias", w.biased},
            {"key_block", cell.key_block},
            {"threads", cell.threads},
            {"busy", cell.busy},
            {"input", name_of(cell.input)},
            {"quantisation", name_of(cell.quantisation)}};
  }

  Result<AttentionDesc> describe_cell(const Cell& cell) const {
    Result<AttentionDesc> desc = describe(cell.variant->scheme, inputs_.q, inputs_.k, inputs_.v);
    if (!desc.ok()) return desc;
    desc.value().mask = workload_->mask, desc.value().key_block = cell.key_block;
    desc.value().input = desc.value().output = cell.input;
    if (workload_->biased) desc.value().bias = AttentionDesc::Bias::additive;
    if (cell.variant->k_per_block) desc.value().recipe.k = Granularity::block;
    return desc;
  }

  /// Copies of K and V in a cache, so many that no processor holds them. unsupported: the scheme's scales
  /// cannot be appended.
  Result<std::vector<KvCache>> fill_caches(const AttentionPlan& plan, const AttentionDesc& desc) {
    const KvCacheOptions options = cache_options(desc);
    std::vector<KvCache> caches;
    do {
      Result<KvCache> cache = KvCache::create(plan, options);
      if (!cache.ok()) return cache.status();
      if (Status s = cache.value().append(inputs_.k, inputs_.v); !s.ok()) return s;
      caches.push_back(cache.take());
    } while (caches.front().bytes() * static_cast<std::int64_t>(caches.size()) < kColdBytes);
    return caches;
  }

  /// A step of decoding whose keys lie in a cache. unsupported: where there is none for the variant.
  Result<Runner> prepare_cached(const Cell& cell) {
    Result<AttentionDesc> desc = describe_cell(cell);
    if (!desc.ok()) return desc.status();
    desc = appendable(desc.value());
    Result<AttentionPlan> plan = AttentionPlan::create(desc.value(), options_.backend);
    if (!plan.ok()) return plan.status();
    Result<std::vector<KvCache>> caches = fill_caches(plan.value(), desc.value());
    if (!caches.ok()) return caches.status();
    const std::int64_t bytes = caches.value().front().workspace_bytes(plan.value());
    const Result<std::int64_t> read = coded_kv_bytes(inputs_, plan.value());
    if (!read.ok()) return read.status();
    Operands operands = plain_operands(inputs_);
    operands.kv_bytes = read.value();
    Result<Runner> runner = runner_for(plan.take(), std::move(operands), bytes, cell.input);
    if (!runner.ok()) return runner;
    runner.value().part = Part::cached, runner.value().caches = caches.take();
    return runner;
  }

  Result<Runner> prepare(const Cell& cell) {
    if (workload_->kind == Kind::decode && cell.quantisation == Quantisation::excluded) {
      Result<Runner> cached = prepare_cached(cell);
      if (cached.ok() || cached.status().code() != Code::unsupported) return cached;
    }
    Result<AttentionDesc> desc = describe_cell(cell);
    if (!desc.ok()) return desc.status();
    Result<AttentionPlan> plan = AttentionPlan::create(desc.value(), options_.backend);
    if (!plan.ok()) return plan.status();
    Operands operands = plain_operands(inputs_);
    if (cell.input != DType::f32) {
      Result<Operands> narrow = narrow_operands(inputs_, cell.input);
      if (!narrow.ok()) return narrow.status();
      operands = narrow.take();
    }
    if (cell.quantisation == Quantisation::excluded) {
      Result<Operands> coded = coded_operands(inputs_, plan.value(), workload_->kind, helpers_);
      if (!coded.ok()) return coded.status();
      operands = coded.take();
      desc.value().input = operands.input;
      plan = AttentionPlan::create(desc.value(), options_.backend);
      if (!plan.ok()) return plan.status();
    }
    const std::int64_t bytes = plan.value().workspace_bytes();
    Result<Runner> made = runner_for(plan.take(), std::move(operands), bytes, cell.input);
    if (!made.ok()) return made;
    Runner& runner = made.value();
    const CpuWorkload& w = *workload_;
    // Without quantisation the keys are packed before, too; decode's lie in a cache or, where the scheme has
    // none, in memory as codes, in many copies.
    if (cell.quantisation == Quantisation::excluded && w.kind != Kind::decode) {
      runner.part = Part::packed;
      runner.args.k = runner.operands.k[0], runner.args.v = runner.operands.v[0];
      if (Status s = runner.plan.pack(runner.args); !s.ok()) return s;
    }
    return made;
  }

  /// A runner with an output and so large a workspace.
  Result<Runner> runner_for(AttentionPlan plan, Operands operands, std::int64_t workspace_bytes,
                            DType output) {
    Result<Workspace> workspace = Workspace::allocate(workspace_bytes);
    if (!workspace.ok()) return workspace.status();
    const CpuWorkload& w = *workload_;
    const std::array<std::int64_t, 4> shape{w.batch, w.heads_q, w.tokens_q, w.head_dim};
    Result<HostTensor> o = make_host_tensor(output, {shape.begin(), shape.end()});
    if (!o.ok()) return o.status();
    Runner runner{std::move(plan), workspace.take(), std::move(operands), o.take(), {}, {}, {}, 0};
    runner.args.q = runner.operands.q, runner.args.bias = inputs_.bias;
    runner.args.o = view_bhsd(runner.o.bytes.data(), output, shape);
    runner.args.workspace = runner.workspace.data();
    runner.args.workspace_bytes = runner.workspace.bytes();
    return runner;
  }

  /// The runner of the cell, kept from the cell before where only the threads differ: codes and cold copies
  /// of long keys take longer to make than to measure.
  Result<Runner*> runner_of(const Cell& cell) {
    const auto same = [&](const Cell& other) {
      return other.variant == cell.variant && other.key_block == cell.key_block &&
             other.quantisation == cell.quantisation && other.input == cell.input;
    };
    if (!runner_ || !same(runner_cell_)) {
      runner_.reset();
      Result<Runner> made = prepare(cell);
      if (!made.ok()) return made.status();
      runner_.emplace(made.take()), runner_cell_ = cell;
    }
    runner_->args.parallel_for = cell.threads == 1 ? ParallelFor{run_inline, nullptr} : ParallelFor{};
    return &*runner_;
  }

  /// The best speeds so far of a backend and scheme on a number of threads, by which longer shapes are
  /// foretold: one query against long keys, say, is no measure of sixteen.
  using Speed = std::tuple<std::string, Scheme, int>;

  Status check_time(const std::string& backend, const Cell& cell) const {
    if (seconds() > 60 * options_.minutes)
      return {Code::unsupported, fmt::format("the suite's {} minutes were up", options_.minutes)};
    const auto known = speeds_.find({backend, cell.variant->scheme, cell.threads});
    if (known == speeds_.end()) return {};
    const double expected = giga_operations(*workload_) / known->second;
    if (expected <= options_.call_seconds) return {};
    return {Code::unsupported, fmt::format("a call would take about {:.0f} s, longer than {} s", expected,
                                           options_.call_seconds)};
  }

  Status fill(const Cell& cell, Json& row) {
    if (Status s = check_time({}, cell); !s.ok()) return s;
    Result<Runner*> prepared = runner_of(cell);
    if (!prepared.ok()) return prepared.status();
    Runner& runner = *prepared.value();
    const std::string backend = runner.plan.backend();
    row["backend"] = backend, row["kernel"] = runner.plan.kernel();
    if (runner.part == Part::cached) row["keys"] = "cache";
    if (Status s = check_time(backend, cell); !s.ok()) return s;
    if (Status s = runner.run(); !s.ok()) return s;
    if (!exact_) {
      Result<ExactRows> exact = ExactRows::compute(*workload_, inputs_, helpers_);
      if (!exact.ok()) return exact.status();
      exact_ = exact.take();
    }
    const double error = exact_->relative_rmse(runner.o);
    return time(cell, runner, error, row);
  }

  Status time(const Cell& cell, Runner& runner, double error, Json& row) {
    Sampling sampling;
    if (cell.busy > 0) {  // single calls, and enough of them for a 90th percentile over whole time slices
      sampling.group_seconds = 0, sampling.total_seconds = 4;
      sampling.least_groups = 50, sampling.most_groups = 2000;
    }
    const std::string backend = runner.plan.backend();
    const Peak peak = peak_of(cell.variant->scheme, backend, cell.threads);
    const bool has_share = !peak.instruction.empty() && cell.busy == 0;
    const bool reads_memory = workload_->kind == Kind::decode && cell.busy == 0;
    // Steps of decoding follow each other: a group is several calls after one that is not timed, for the
    // probe of memory before it leaves threads asleep and page tables out of the caches.
    if (reads_memory) sampling.group_seconds = 0.05, sampling.total_seconds = 0.5;
    // On a shared machine the clock and the neighbours change within milliseconds: every group of calls is
    // held against the peak, and the read bandwidth, just before and after it.
    std::vector<double> peaks, reads;
    Status settled;
    const auto around = [&] {
      if (has_share) peaks.push_back(peak_again(peak, cell.threads));
      if (reads_memory) {
        reads.push_back(read_bandwidth(cell.threads));
        settled = runner.run();
      }
    };
    Result<Timing> timing = time_calls([&] { return runner.run(); }, sampling, around);
    if (!timing.ok()) return timing.status();
    if (!settled.ok()) return settled;
    const Timing& t = timing.value();
    const double gops = giga_operations(*workload_) / t.median;
    auto& fastest = speeds_[{backend, cell.variant->scheme, cell.threads}];
    fastest = std::max(fastest, gops);
    row["ms"] = rounded(1e3 * t.median), row["ms_p90"] = rounded(1e3 * t.p90), row["calls"] = t.calls;
    if (cell.threads == 1) row["cpu_ms"] = rounded(1e3 * t.cpu_median);
    row["gops"] = rounded(gops);
    // The median of groups' shares of `rates`, the readings around them, where a call does `giga`.
    const auto percent_of = [&](const std::vector<double>& rates, double giga) {
      std::vector<double> shares;
      for (std::size_t i = 0; i < t.groups.size(); ++i)
        shares.push_back(giga / t.groups[i] / ((rates[i] + rates[i + 1]) / 2));
      return rounded(100 * quantile(shares, 0.5));
    };
    if (has_share) {
      row["peak_instruction"] = peak.instruction, row["peak_gops"] = rounded(quantile(peaks, 0.5));
      row["percent_of_peak"] = percent_of(peaks, giga_operations(*workload_));
    }
    if (workload_->kind == Kind::decode) {
      const double gigabytes = 1e-9 * static_cast<double>(runner.operands.kv_bytes);
      row["gb_per_s"] = rounded(gigabytes / t.median);
      if (reads_memory) {
        row["read_gb_per_s"] = rounded(quantile(reads, 0.5));
        row["percent_of_bandwidth"] = percent_of(reads, gigabytes);
      }
    }
    row["relative_rmse"] = rounded(error);
    return {};
  }

  const CpuSuiteOptions& options_;
  Threads helpers_;  ///< for what is not measured
  Clock::time_point start_;
  const CpuWorkload* workload_ = nullptr;
  CpuInputs inputs_;
  std::optional<ExactRows> exact_;
  std::optional<Runner> runner_;
  Cell runner_cell_;  ///< whose runner it is
  std::map<Speed, double> speeds_;
  Json rows_ = Json::array();
};

/// The names that were asked for among `all`, in the order of `all`; every one where none was.
template <class List, class Name>
Result<std::vector<const typename List::value_type*>> chosen(const List& all,
                                                             const std::vector<std::string>& names,
                                                             const char* argument, Name&& name) {
  std::vector<const typename List::value_type*> found;
  std::string known;
  for (const auto& item : all) known += (known.empty() ? "" : ", ") + std::string(name(item));
  for (const std::string& wanted : names) {
    if (std::none_of(all.begin(), all.end(), [&](const auto& item) { return wanted == name(item); }))
      return broken(argument, in_quotes(wanted), "the suite has none of this name", "choose from " + known);
  }
  for (const auto& item : all) {
    if (names.empty() || std::find(names.begin(), names.end(), name(item)) != names.end())
      found.push_back(&item);
  }
  return found;
}

/// Whole calls beside busy processes, as a service on a shared machine makes them.
std::vector<Cell> cells_under_load(const std::vector<const CpuVariant*>& variants, int all) {
  std::vector<Cell> cells;
  for (const CpuVariant* v : variants) {
    if (v->scheme != Scheme::int8) continue;
    for (const int threads : std::set<int>{1, all})
      cells.push_back({v, 128, Quantisation::excluded, threads, kBusyProcesses});
  }
  return cells;
}

}  // namespace

const std::vector<CpuVariant>& cpu_variants() {
  static const std::vector<CpuVariant> all{
      {"int8_kblock", Scheme::int8, true},
      {"int8", Scheme::int8},
      {"int8_shift", Scheme::int8_shift},
      {"integer", Scheme::integer},
      {"qflash", Scheme::qflash},
      {"int8_full", Scheme::int8_full},
      {"int8_lut", Scheme::int8_lut},
      {"f32", Scheme::f32},
      {"bf16", Scheme::bf16},
      {"f16", Scheme::f16},
  };
  return all;
}

Result<Json> run_cpu_suite(const CpuSuiteOptions& options) {
  const auto workloads =
      chosen(cpu_workloads(), options.workloads, "--workloads", [](const auto& w) { return w.name; });
  if (!workloads.ok()) return workloads.status();
  const auto variants =
      chosen(cpu_variants(), options.variants, "--schemes", [](const auto& v) { return v.label; });
  if (!variants.ok()) return variants.status();
  const int threads = options.threads > 0 ? options.threads : available_processors();
  // note: before the library's first call, which reads it.
  if (options.threads > 0) setenv("OCTET_THREADS", fmt::format("{}", threads).c_str(), 1);

  Suite suite(options, threads);
  std::vector<std::pair<const CpuWorkload*, std::vector<Cell>>> work;
  std::int64_t rows = 0;
  for (const CpuWorkload* w : workloads.value()) {
    work.emplace_back(w, cells_of(*w, variants.value(), threads));
    rows += static_cast<std::int64_t>(work.back().second.size());
  }
  const Machine machine = this_machine();
  Json document = {{"suite", "cpu"},
                   {"command", "octet bench --suite cpu"},
                   {"version", octet_version()},
                   {"commit", options.commit},
                   {"date", today()},
                   {"cpu", machine.cpu},
                   {"cpu_family", machine.family},
                   {"cpu_model", machine.model},
                   {"features", machine.features},
                   {"processors", machine.processors},
                   {"threads", threads},
                   {"seconds", 0},
                   {"peaks", all_peaks(threads)},
                   {"peers", Json::array()}};
  Progress progress("measuring", rows);
  for (const auto& [workload, cells] : work)
    if (Status s = suite.measure(*workload, cells, progress); !s.ok()) return s;
  if (options.under_load) {
    const BusyProcesses busy(kBusyProcesses);
    for (const CpuWorkload* w : workloads.value()) {
      if (w->name != std::string_view("vit-b") && w->name != std::string_view("1k-d64")) continue;
      if (Status s = suite.measure(*w, cells_under_load(variants.value(), threads), progress); !s.ok())
        return s;
    }
  }
  document["seconds"] = std::round(suite.seconds());
  document["rows"] = suite.take_rows();
  return document;
}

}  // namespace octet::tool
