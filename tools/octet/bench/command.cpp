// octet bench: time and accuracy of schemes on the shapes of a suite, and the page that is made of them.
#include <filesystem>
#include <memory>

#include "bench/cpu_suite.h"
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
  std::string output, commit = "unknown", results, docs;
  int minutes = 9;
  bool idle_only = false;
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

Status run_report(const Options& options) {
  if (options.results.empty())
    return broken("--results", "missing", "the page is made of the files there", "pass --results DIR");
  Result<std::vector<Json>> documents = load_documents(options.results);
  if (!documents.ok()) return documents.status();
  const std::string page = benchmarks_page(documents.value());
  if (options.docs.empty()) return print(page);
  return write_text(std::filesystem::path(options.docs) / "benchmarks.md", page);
}

Status run(const Options& options) {
  const std::string& suite = options.shapes.suite;
  if (suite == "cpu") return run_cpu(options);
  if (suite == "report") return run_report(options);
  for (const char* known : {"vit", "llm-prefill", "decode"})
    if (suite == known) return run_shapes(options.shapes);
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
  command.option("--schemes", "LIST", shapes.schemes,
                 "Names with commas between [f32,int8,int8_shift,integer; cpu: all]");
  command.option("--workloads", "LIST", shapes.workloads, "Of the suite, as in A1,A2 [all]");
  command.option("--backend", "NAME", shapes.backend, "Backend to use [the first that takes the problem]");
  command.option("--groups", "N", shapes.groups, "Groups of calls, whose median is told").shows_default();
  command.option("--group-ms", "N", shapes.group_ms, "Milliseconds that a group lasts at least")
      .shows_default();
  command.option("--seed", "N", shapes.seed, "Of the random inputs").shows_default();
  command.option("--minutes", "N", options->minutes, "cpu: rows that would begin later are skipped")
      .range(1, 1440)
      .shows_default();
  command.flag("--idle-only", options->idle_only, "cpu: leave out the rows beside busy processes");
  command.option("--output", "FILE", options->output, "cpu: where the JSON document goes [nowhere]");
  command.option("--commit", "HASH", options->commit, "cpu: recorded in the document");
  command.option("--results", "DIR", options->results, "report: of the documents");
  command.option("--docs-dir", "DIR", options->docs, "report: where benchmarks.md goes [standard output]");
  add_threads_option(command, shapes.threads);
  add_json_option(command, shapes.json);
}

}  // namespace octet::tool
