// octet bench --suite vit, llm-prefill and decode on a GPU: schemes on the shapes of models, from a graph.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/command.h"

namespace octet::tool {

struct GpuSuiteOptions {
  std::string suite;                             ///< "vit", "llm-prefill" or "decode"
  std::vector<std::string> workloads, variants;  ///< names; empty: all, the usual ones
  std::string energy;                            ///< workloads whose energy is measured (weighed_workloads)
  double energy_seconds = 2;                     ///< of each of their rows at least; 0: no energy
  int threads = 0;                               ///< of the host, for inputs and references; 0: all
  std::uint64_t seed = 1;
  std::string commit = "unknown";
};

/// What has a row unless --schemes says otherwise, and all names that it takes.
const std::vector<std::string>& usual_gpu_variants();
std::vector<std::string> all_gpu_variants();

/// The document: {"suite", "command", "version", "commit", "date", "gpu", "capability", "processors", "cuda",
/// "driver", "energy", "seed", "seconds", "peaks": [...], "peers": [], "inputs": [...], "rows": [...]}: what
/// check_gpu_document asks for. A row that was not measured has "skipped" with the reason. Errors: unknown
/// names, listed; unsupported where there is no GPU, with what to do.
Result<Json> run_gpu_suite(const GpuSuiteOptions& options);

/// The workloads of the suite with their shapes, as rows of JSON; needs no GPU.
Result<Json> list_gpu_workloads(const GpuSuiteOptions& options);

}  // namespace octet::tool
