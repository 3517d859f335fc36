// The kernels of encode.cu.
#pragma once
#include <span>

#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// amax of all groups of each of up to kMostTogether operands, from rows of elements of one size.
void launch_measure(std::span<const MeasuredRows> operands, void* stream);
/// first_group[s] for all sequences of a packed tensor, groups of `tokens` tokens.
void launch_first_groups(const Sequences& sequences, std::int64_t tokens, std::int64_t* first_group,
                         void* stream);
/// Scales from amax.
void launch_scales(const ScaleWriting& writing, const ScaleMaking& making, void* stream);
/// Codes, and the scales of tokens.
void launch_encode(const RowReading& rows, const Coding& coding, void* stream);

}  // namespace octet::cuda
