// octet bench --suite cpu: every scheme that has kernels, on the shapes that matter on CPUs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/command.h"
#include "octet/octet.hpp"

namespace octet::tool {

/// One column of the suite: a scheme with a recipe.
struct CpuVariant {
  const char* label;  ///< as in tables and --schemes: "int8, K per block" is int8_kblock
  Scheme scheme;
  bool k_per_block = false, v_per_channel = false;
  SchemeOptions options{};
};
const std::vector<CpuVariant>& cpu_variants();

struct CpuSuiteOptions {
  std::vector<std::string> workloads, variants;  ///< names; empty: all
  std::string backend;                           ///< empty: the first that takes the problem
  int threads = 0;                               ///< of the rows on all threads; 0: the library's choice
  std::uint64_t seed = 1;
  double minutes = 9;       ///< rows that would begin later are skipped
  double call_seconds = 3;  ///< a call that would take longer is skipped
  bool under_load = true;   ///< also measure beside two busy processes
  std::string commit = "unknown";
};

/// The document: {"suite": "cpu", "command", "version", "commit", "date", "cpu", "cpu_family",
/// "cpu_model", "features", "processors",
/// "threads", "seconds", "peaks": [...], "peers": [], "rows": [...]}. A row that was not measured has
/// "skipped" with the reason instead of figures. Errors: unknown names, listed.
Result<Json> run_cpu_suite(const CpuSuiteOptions& options);

}  // namespace octet::tool
