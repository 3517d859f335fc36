// What the scheme `integer` asks of V's scales, where the caller brings codes.
#pragma once
#include "base/sequences.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::capi {

/// Scales of V's tokens or key blocks must be 2^e * 16 / g with g in 16...31, and a token's at least 2^-8 of
/// the largest in its key block: P carries them, and the row sum whole multiples of their inverses.
/// invalid_argument names the first that is not. Reads one f32 a scale.
Status check_v_grid(const AttentionDesc& desc, const QuantizedTensor& v, const Sequences& keys);

}  // namespace octet::capi
