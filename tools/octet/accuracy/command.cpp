// octet accuracy: every scheme on a file, or the measurements behind docs/accuracy.md.
#include <memory>

#include "accuracy/input_table.h"
#include "accuracy/suite.h"
#include "commands.h"
#include "common/sentence.h"

namespace octet::tool {
namespace {

struct Options {
  InputTableOptions table;
  SuiteOptions suite;
};

void add_problem_of(Arguments& command, ProblemOptions& options) {
  command.flag("--causal", options.causal, "Hide later keys; the last query is aligned with the last key");
  command.option("--softmax-scale", "X", options.softmax_scale, "Factor of the scores [1 / sqrt(dim)]");
  command.option("--key-block", "N", options.key_block, "Keys a block; part of a scheme's result [128]");
}

void add_suite(Arguments& command, SuiteOptions& options) {
  command.option("--suite", "NAME", options.suite, "Measure by protocol instead, one of: " + suite_choices());
  command.option("--output-dir", "DIR", options.output_dir,
                 "Where the suite keeps a JSON file for each part");
  command.option("--docs-dir", "DIR", options.docs_dir, "Where accuracy.md and claims.md go [nowhere]");
  command.option("--gpu-results", "FILE", options.gpu_results,
                 "What scripts/bench-gpu wrote, for the claims that are about GPUs [they stay open]");
  command.option("--commit", "HASH", options.commit, "Recorded with the suite's results");
  command.option("--seeds", "N", options.size.seeds, "Seeds that the suite pools at most")
      .range(1, 1000)
      .shows_default();
  command.option("--queries", "N", options.size.queries, "Query rows of a seed in the suite at most")
      .range(1, 100000)
      .shows_default();
  command.option("--longest", "N", options.size.longest, "Keys of the suite's longest experiment")
      .range(1, 1 << 24)
      .shows_default();
  command.flag("--fresh", options.fresh, "Measure parts again whose files are there");
}

Status run(Options& options) {
  if (options.suite.suite.empty()) return print_input_table(options.table);
  if (options.suite.output_dir.empty())
    return broken("--output-dir", "missing", "the suite keeps its results there", "pass --output-dir DIR");
  options.suite.capture = options.table.input.input;
  options.suite.threads = options.table.threads;
  return run_suite(options.suite);
}

}  // namespace

void add_accuracy(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Arguments command = line.command("accuracy", "Errors of every scheme, on a file or by protocol",
                                   [options] { return run(*options); });
  add_input_options(command, options->table.input);
  add_problem_of(command, options->table.problem);
  command.option("--schemes", "LIST", options->table.schemes, "Schemes to show, with commas between [all]");
  command.flag("--by-batch", options->table.by_batch, "Also show each batch entry (say, layer) on its own");
  add_suite(command, options->suite);
  add_threads_option(command, options->table.threads);
  add_json_option(command, options->table.json);
}

}  // namespace octet::tool
