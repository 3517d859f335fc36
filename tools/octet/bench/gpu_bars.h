// The speeds and energies that the CUDA backend is to reach on an H200, against those of a run.
#pragma once
#include <vector>

#include "bench/bars.h"
#include "bench/gpu_runs.h"

namespace octet::tool {

/// Every bar; "open" where the run has not what it needs.
std::vector<CpuBar> gpu_bars_of(const GpuRun& run);

}  // namespace octet::tool
