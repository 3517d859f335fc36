// Scheme `int4`: Q and K in 4 bits (-7...7), P and V as in int8. The 4-bit codes arrive as s8 numbers, so the
// arithmetic is int8's; formats and recipe are the scheme's own. Specification: docs/numerics/int4.md.
#pragma once
#include "numerics/folded_u8.h"

namespace octet {

template <class L>
using Int4Scheme = FoldedU8<L, AccurateExponential>;

}  // namespace octet
