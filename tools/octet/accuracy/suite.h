// octet accuracy --suite: measures what docs/accuracy.md and docs/claims.md are made of, part by part.
#pragma once
#include <string>

#include "accuracy/protocols.h"

namespace octet::tool {

struct SuiteOptions {
  std::string suite;               ///< one of suite_choices()
  std::string output_dir;          ///< of one JSON file a part
  std::string docs_dir;            ///< of the pages; empty: none are written
  std::string gpu_results;         ///< what scripts/bench-gpu wrote; empty: the claims on GPUs stay open
  std::string commit = "unknown";  ///< recorded in the JSON: what was measured
  std::string capture;             ///< the safetensors file of real Q, K and V; empty: that part is left out
  SuiteSize size;
  bool fresh = false;  ///< measure again what is there already
  int threads = 0;
};

/// What --suite may name, with commas between: the whole, each part, the pages.
std::string suite_choices();

/// Runs the suite. A part whose file exists is kept, so that a run that was stopped goes on. Errors: an
/// unknown suite, a part that fails, a directory that cannot be written.
Status run_suite(const SuiteOptions& options);

}  // namespace octet::tool
