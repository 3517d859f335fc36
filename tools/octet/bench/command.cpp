// octet bench: time and accuracy of schemes on the shapes of a suite, and the page that is made of them.
#include <filesystem>
#include <memory>

#include "bench/cpu_suite.h"
#include "bench/gpu_report.h"
#include "bench/gpu_rows.h"
#include "bench/gpu_suite.h"
#include "bench/report.h"
#include "bench/rows.h"
#include "bench/shapes.h"
#include "commands.h"
#include "common/problem_options.h"
#include "common/sentence.h"
#include "common/text.h"
#include "io/atomic_file.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

struct Options {
  ShapesOptions shapes;
  std::string device = "cuda", energy, energy_seconds = "2";
  std::string output, commit = "unknown", results, gpu_results, docs;
  int minutes = 9;
  bool idle_only = false, list = false;
};

Status write_text(const std::filesystem::path& path, const std::string& text) {
  return write_file_atomically(path.string(), std::as_bytes(std::span(text)));
}

Status run_cpu(const Options& options) {
  CpuSuiteOptions suite;
  suite.workloads = split(options.shapes.workloads, ','), suite.variants = split(options.shapes.schemes, ',');
  suite.backend = options.shapes.backend, suite.threads = options.shapes.threads;
  suite.minutes = options.minutes, suite.commit = options.commit, suite.under_load = !options.idle_only;
  Result<Json> document = run_cpu_suite(suite);
  if (!document.ok()) return document.status();
  if (!options.output.empty())
    if (Status s = write_text(options.output, document_text(document.value())); !s.ok()) return s;
  return print(options.shapes.json ? document_text(document.value()) : rows_table(document.value()));
}

Status run_gpu(const Options& options) {
  const ShapesOptions& shapes = options.shapes;
  GpuSuiteOptions suite;
  suite.suite = shapes.suite, suite.commit = options.commit, suite.threads = shapes.threads;
  suite.workloads = split(shapes.workloads, ','), suite.variants = split(shapes.schemes, ',');
  suite.energy = options.energy;
  Result<std::int64_t> seed = parse_integer("--seed", shapes.seed, {0});
  if (!seed.ok()) return seed.status();
  suite.seed = static_cast<std::uint64_t>(seed.value());
  Result<float> seconds = parse_real("--seconds", options.energy_seconds);
  if (!seconds.ok()) return seconds.status();
  constexpr float kMostSeconds = 3600;
  if (!(seconds.value() >= 0 && seconds.value() <= kMostSeconds))
    return broken("--seconds", options.energy_seconds, "a row's energy takes from 0 (none) to 3600 s",
                  "pass 2 or so");
  suite.energy_seconds = static_cast<double>(seconds.value());
  if (options.list) {
    Result<Json> rows = list_gpu_workloads(suite);
    if (!rows.ok()) return rows.status();
    return shapes.json ? print_json(rows.value()) : print(gpu_shapes_table(rows.value()));
  }
  Result<Json> document = run_gpu_suite(suite);
  if (!document.ok()) return document.status();
  if (!options.output.empty())
    if (Status s = write_text(options.output, document_text(document.value())); !s.ok()) return s;
  return print(shapes.json ? document_text(document.value()) : gpu_rows_table(document.value()));
}

Status run_report(const Options& options) {
  if (options.results.empty())
    return broken("--results", "missing", "the page is made of the files there", "pass --results DIR");
  Result<std::vector<Json>> documents = load_documents(options.results);
  if (!documents.ok()) return documents.status();
  std::string page = benchmarks_page(documents.value());
  if (!options.gpu_results.empty()) {
    Result<Json> document = load_gpu_document(options.gpu_results);
    if (!document.ok()) return document.status();
    page += gpu_section(document.value());
  }
  if (options.docs.empty()) return print(page);
  return write_text(std::filesystem::path(options.docs) / "benchmarks.md", page);
}

Status run(const Options& options) {
  const std::string& suite = options.shapes.suite;
  if (suite == "cpu") return run_cpu(options);
  if (suite == "report") return run_report(options);
  if (options.device != "cuda" && options.device != "cpu")
    return broken("--device", in_quotes(options.device), "it says what to measure", "choose cuda or cpu");
  for (const char* known : {"vit", "llm-prefill", "decode"})
    if (suite == known) return options.device == "cuda" ? run_gpu(options) : run_shapes(options.shapes);
  return broken("--suite", suite.empty() ? "missing" : in_quotes(suite), "it names what to measure",
                fmt::format("choose one of {}, cpu, report", kShapeSuites));
}

}  // namespace

void add_bench(CommandLine& line) {
  auto options = std::make_shared<Options>();
  ShapesOptions& shapes = options->shapes;
  Arguments command = line.command("bench", "Time and accuracy of schemes on the shapes of a suite",
                                   [options] { return run(*options); });
  command.option("--suite", "NAME", shapes.suite,
                 fmt::format("One of {}; cpu (shares of the CPU's peak), or report (the page of its results)",
                             kShapeSuites));
  command.option("--device", "NAME", options->device, "vit, llm-prefill, decode: cuda (a GPU) or cpu [cuda]");
  command.option(
      "--schemes", "LIST", shapes.schemes,
      fmt::format("Names with commas between [GPU: {}; cpu: all; else f32,int8,int8_shift,integer]",
                  fmt::join(usual_gpu_variants(), ",")));
  command.option("--workloads", "LIST", shapes.workloads, "Of the suite, as in A1-b1,A2-b8 [all]");
  command.flag("--list", options->list, "GPU: print the workloads and measure nothing");
  command
      .option("--seconds", "S", options->energy_seconds,
              "GPU: for the energy of a row at least; 0: no energy")
      .shows_default();
  command.option("--energy", "LIST", options->energy,
                 "GPU: workloads whose energy is measured, or all, or none [those that --list marks]");
  command.option("--backend", "NAME", shapes.backend,
                 "CPU: backend to use [the first that takes the problem]");
  command.option("--groups", "N", shapes.groups, "CPU: groups of calls, whose median is told")
      .shows_default();
  command.option("--group-ms", "N", shapes.group_ms, "CPU: milliseconds that a group lasts at least")
      .shows_default();
  command.option("--seed", "N", shapes.seed, "Of the random inputs").shows_default();
  command.option("--minutes", "N", options->minutes, "cpu: rows that would begin later are skipped")
      .range(1, 1440)
      .shows_default();
  command.flag("--idle-only", options->idle_only, "cpu: leave out the rows beside busy processes");
  command.option("--output", "FILE", options->output, "cpu, GPU: where the JSON document goes [nowhere]");
  command.option("--commit", "HASH", options->commit, "cpu, GPU: recorded in the document");
  command.option("--results", "DIR", options->results, "report: of the CPU's documents");
  command.option("--gpu-results", "FILE", options->gpu_results,
                 "report: the document of scripts/bench-gpu, whose part comes last [no such part]");
  command.option("--docs-dir", "DIR", options->docs, "report: where benchmarks.md goes [standard output]");
  add_threads_option(command, shapes.threads);
  add_json_option(command, shapes.json);
}

}  // namespace octet::tool
