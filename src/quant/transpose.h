// V's codes dim-major in key order, as the 8-bit tensor-core kernels read them.
#pragma once
#include <cstdint>

#include "base/sequences.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::quant {

/// Shape and strides of the transposed codes, null data: [batch, head, dim, slots], contiguous. Each sequence
/// is padded to a multiple of 16 slots (dense: one sequence a batch entry) and packed sequences follow each
/// other: sequence s begins at slot 16 * Sequences::first_group(s, 16).
TensorView transposed_layout(const TensorView& codes, std::int64_t packed_sequences);

/// out(b, h, c, slot) = codes(b, h, key_of_slot(slot), c) within each sequence, 0 in padding slots.
/// codes: s8, e4m3 or e5m2, [batch, head, token, dim], any strides; out as transposed_layout says (other
/// strides are fine). Slots beyond the last sequence's are zero too.
Status transpose(const TensorView& codes, const Sequences& sequences, const TensorView& out,
                 const ParallelFor& parallel_for);

}  // namespace octet::quant
