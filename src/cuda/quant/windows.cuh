// The kernel of windows.cu.
#pragma once
#include <span>

#include "cuda/quant/short_sequences.cuh"

namespace octet::cuda {

/// Whether launch_windows() takes the operand: dense sequences of up to 64 aligned 16-bit rows of 32
/// channels, which become s8 with scales of tokens or of all of a sequence, or its channels.
bool is_of_windows(const ShortOperand& operand);
/// Whether it takes them in one launch, and is the faster way.
bool should_launch_windows(std::span<const ShortOperand> operands);

/// Means, exponents, scales and codes of up to kMostTogether operands, at least one.
void launch_windows(std::span<const ShortOperand> operands, void* stream);

}  // namespace octet::cuda
