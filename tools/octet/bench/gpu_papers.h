// The papers' GPU experiments, from one stored run of the suites: what they print, what this GPU gives.
#pragma once
#include <string>
#include <vector>

#include "bench/gpu_runs.h"

namespace octet::tool {

/// One of the 68 claims (docs/claims.md) that a run on a GPU answers.
struct PaperFigure {
  int number = 0;  ///< of the claim
  std::string claim, paper;
  std::string protocol;
  std::string ours;
  std::string verdict;
};

/// Those of which the run has all rows, in the order of their numbers. A speed-up is a ratio of times of
/// kernels, codes given, both of this run.
std::vector<PaperFigure> paper_figures_of(const GpuRun& run);

}  // namespace octet::tool
