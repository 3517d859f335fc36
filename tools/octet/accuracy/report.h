// The pages that are made from stored measurements: docs/accuracy.md and docs/claims.md.
#pragma once
#include <string>

#include "accuracy/measurements.h"
#include "bench/gpu_papers.h"

namespace octet::tool {

/// How it was measured, the bars with pass or fail, tables by distribution and by length, the real capture,
/// and the papers' accuracy claims.
std::string accuracy_page(const Measurements& measured);

/// One row for each of the 68 claims of the papers. on_gpu: those that a run of the GPU suites answers, which
/// are open otherwise.
std::string claims_page(const Measurements& measured, const std::vector<PaperFigure>& on_gpu);

}  // namespace octet::tool
