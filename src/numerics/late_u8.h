// The arithmetic of `int8` where V's scales do not vary along tokens, while K's may: P carries none of them,
// and scores are without the row's factor (numerics/unbiased.h), two instructions a score less. For lanes to
// which these are a cost (docs/cuda-measurements.md).
#pragma once
#include "numerics/folded_u8.h"
#include "numerics/unbiased.h"

namespace octet {

template <class L>
using LateU8 = LateScaled<FoldedU8<L, AccurateExponential, VScale::at_fold>>;

}  // namespace octet
