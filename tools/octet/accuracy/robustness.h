// Whether an integer scheme's outputs are still weighted means at every scale of its inputs (QFlash's are
// not: codes wrap, weights turn negative, hidden keys leak).
#pragma once
#include <vector>

#include "accuracy/protocols.h"

namespace octet::tool {

/// "robustness/<largest |q| times largest |k|>", 1e-3 to 1e5 by factors of ten: for integer and qflash, the
/// share of outputs outside the range that any weighted mean of visible values has ("outside"), the same of
/// seeds
/// ("seeds_outside"), and the usual figures. N(0, 1) scaled, 64 queries, 1024 keys, d = 64; visible values
/// are U(1, 2); every third key is hidden by a boolean mask and holds -2.
Result<std::vector<Json>> run_robustness(const SuiteSize& size, int threads);

}  // namespace octet::tool
