// The kernel of held_sequences.cu.
#pragma once
#include <span>

#include "cuda/quant/short_sequences.cuh"

namespace octet::cuda {

/// Whether launch_held_sequences() takes the operand: dense sequences of aligned 16-bit rows of 64 or 128
/// channels, which become s8 with scales of tokens, of K's key blocks, or of V's heads or channels, and whose
/// statistic, if any, a few blocks of threads find that hold all of the sequence.
bool can_hold(const ShortOperand& operand);
/// Whether it takes them in one launch, and is the faster way.
bool should_hold(std::span<const ShortOperand> operands);

/// Means, exponents, scales and codes of up to kMostTogether operands, at least one. coding.packed is cleared
/// where rows are written all the same: of sequences in parts that end within key blocks; coding.constants
/// where they are not written.
void launch_held_sequences(std::span<ShortOperand> operands, void* stream);

}  // namespace octet::cuda
