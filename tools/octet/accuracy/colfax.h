// Colfax's accuracy protocol: N(0, 1) inputs cast to e4m3 without any scale, output in f16, errors in
// absolute RMSE against float64 attention of the cast inputs (as the note measures) and of the inputs before
// the cast.
#pragma once
#include <vector>

#include "accuracy/protocols.h"

namespace octet::tool {

/// "colfax/d64", "/d128", "/d256": rows f16, fp8_hybrid, fp8, and the last two "against uncast inputs". 4096
/// keys.
Result<std::vector<Json>> run_colfax(const SuiteSize& size, int threads);

}  // namespace octet::tool
