#include "accuracy/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

#include "accuracy/colfax.h"
#include "accuracy/measurements.h"
#include "accuracy/part.h"
#include "accuracy/report.h"
#include "accuracy/robustness.h"
#include "bench/gpu_rows.h"
#include "common/sentence.h"
#include "io/atomic_file.h"

namespace octet::tool {
namespace {

using Documents = Result<std::vector<Json>>;

/// Every row on the real capture; batch entries are its layers.
Documents run_capture(const SuiteOptions& options) {
  InputOptions file;
  file.input = options.capture;
  Result<ProblemInput> input = load_problem(file);
  if (!input.ok()) return input.status();
  Result<AttentionDesc> problem = describe(Scheme::f32, input.value().q, input.value().k, input.value().v);
  if (!problem.ok()) return problem.status();
  Threads threads(options.threads);
  Result<Output> exact = attend_exactly(problem.value(), input.value(), threads);
  if (!exact.ok()) return exact.status();
  Json document;
  document["name"] = "capture";
  document["data"] = {{"file", std::filesystem::path(options.capture).filename().string()}};
  for (const Variant& variant : table_variants()) {
    Result<AttentionDesc> desc = variant.applied_to(problem.value());
    if (!desc.ok()) return desc.status();
    Result<Measured> measured = measure(desc.value(), input.value(), exact.value(), WithBound::no, threads);
    if (!measured.ok()) return measured.status();
    Json row = {{"name", variant.name}, {"scheme", octet::name_of(variant.scheme)}};
    row.update(pooled_figures(measured.value().entries));
    for (const ErrorSums& layer : measured.value().entries)
      row["relative_rmse_by_batch"].push_back(layer.relative_rmse());
    document["rows"].push_back(std::move(row));
  }
  return std::vector<Json>{std::move(document)};
}

struct Part {
  const char* name;
  std::function<Documents(const SuiteOptions&)> run;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> all = {
      {"protocols",
       [](const SuiteOptions& o) {
         return run_experiments(protocol_experiments(o.size), o.threads, "protocols");
       }},
      {"colfax", [](const SuiteOptions& o) { return run_colfax(o.size, o.threads); }},
      {"robustness", [](const SuiteOptions& o) { return run_robustness(o.size, o.threads); }},
      {"capture", run_capture},
      {"features",
       [](const SuiteOptions& o) {
         return run_experiments(feature_experiments(o.size), o.threads, "features");
       }},
      {"distributions",
       [](const SuiteOptions& o) {
         return run_experiments(distribution_experiments(o.size), o.threads, "distributions");
       }},
      {"lengths",
       [](const SuiteOptions& o) {
         return run_experiments(length_experiments(o.size), o.threads, "lengths");
       }},
  };
  return all;
}

Status write_text(const std::filesystem::path& path, const std::string& text) {
  return write_file_atomically(path.string(), std::as_bytes(std::span(text)));
}

Status run_part(const Part& part, const SuiteOptions& options) {
  const std::filesystem::path path =
      std::filesystem::path(options.output_dir) / (std::string(part.name) + ".json");
  if (!options.fresh && std::filesystem::exists(path)) return {};
  if (part.name == std::string_view("capture") && options.capture.empty()) return {};
  const double start = cpu_seconds();
  Documents documents = part.run(options);
  if (!documents.ok()) return documents.status();
  const PartSource source = {part.name, fmt::format("octet accuracy --suite {}", part.name), options.commit,
                             cpu_seconds() - start};
  const Json json = part_json(source, documents.take());
  return write_text(path, json.dump(1) + "\n");
}

Status write_pages(const SuiteOptions& options) {
  if (options.docs_dir.empty()) return {};
  Result<Measurements> measured = load_measurements(options.output_dir);
  if (!measured.ok()) return measured.status();
  const std::filesystem::path docs(options.docs_dir);
  if (Status s = write_text(docs / "accuracy.md", accuracy_page(measured.value())); !s.ok()) return s;
  std::vector<PaperFigure> on_gpu;
  if (!options.gpu_results.empty()) {
    Result<Json> document = load_gpu_document(options.gpu_results);
    if (!document.ok()) return document.status();
    on_gpu = paper_figures_of(GpuRun(document.value()));
  }
  return write_text(docs / "claims.md", claims_page(measured.value(), on_gpu));
}

}  // namespace

std::string suite_choices() {
  std::string all = "papers (every part, then the pages)";
  for (const Part& part : parts()) all += std::string(", ") + part.name;
  return all + ", report (the pages again)";
}

Status run_suite(const SuiteOptions& options) {
  std::vector<const Part*> chosen;
  for (const Part& part : parts())
    if (options.suite == "papers" || options.suite == part.name) chosen.push_back(&part);
  if (chosen.empty() && options.suite != "report")
    return broken("--suite", options.suite, "there is no such suite", "choose one of: " + suite_choices());
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error)
    return Status{Code::io,
                  fmt::format("--output-dir is {}, but it cannot be made ({}); name a directory that "
                              "can be written",
                              options.output_dir, error.message())};
  for (const Part* part : chosen)
    if (Status s = run_part(*part, options); !s.ok()) return s;
  return options.suite == "papers" || options.suite == "report" ? write_pages(options) : Status{};
}

}  // namespace octet::tool
