// The speeds that the CPU backend is to reach, against those of a run.
#pragma once
#include <string>
#include <vector>

#include "bench/runs.h"

namespace octet::tool {

struct CpuBar {
  std::string what, threshold, measured;
  std::string verdict;  ///< "holds", "fails", or "open" where the run has not what it needs
};

enum class Side { at_least, at_most };
/// "open" where nothing was measured (NaN).
std::string verdict_of(double measured, double threshold, Side side);

/// Every bar that applies to the run's CPU: shares of peak are set for Zen 5 and for Sapphire and Emerald
/// Rapids, the ratio of AVX2's int8 to its f32 for Zen and for Intel, all others for every CPU.
std::vector<CpuBar> cpu_bars_of(const StoredRun& run);

}  // namespace octet::tool
