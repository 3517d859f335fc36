// A unit's rows to codes and scales, once its shift and its exponents are known.
#pragma once
#include <cstdint>
#include <span>

#include "quant/scales.h"
#include "quant/unit.h"

namespace octet::quant {

/// Whether codes need no clamp: scales are made of the largest element.
bool leaves_nothing_to_clamp(const OperandRecipe& recipe);

/// amax[c] of the finite elements of tokens [begin, end): one value, or one a channel.
void measure(const Job& job, RowReader& rows, std::int64_t begin, std::int64_t end, std::span<float> amax);

/// Scales and codes of one unit. `shared`: the scale of Granularity::tensor, which is stored already.
void encode(const Job& job, Unit& unit, const Scale* shared);

}  // namespace octet::quant
