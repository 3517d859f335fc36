// Schemes `int8` and its fast form `int8_shift`: both products in INT8 with exact int32 sums. They differ in
// the exponential and in the default recipe. Specification and measurements: docs/numerics/int8.md,
// docs/numerics/int8_shift.md.
#pragma once
#include "numerics/folded_u8.h"

namespace octet {

template <class L>
using Int8Scheme = FoldedU8<L, AccurateExponential>;

template <class L>
using Int8ShiftScheme = FoldedU8<L, LinearExponential>;

}  // namespace octet
