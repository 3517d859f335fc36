// The kernel of short_sequences.cu.
#pragma once
#include <span>

#include "cuda/quant/quantize.h"
#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// An operand all of whose steps are done in one launch.
struct ShortOperand {
  RowReading rows;  ///< shift.data: K's mean is taken, and goes there, unless it has_shift; exponent.data:
                    ///< V's exponents likewise
  Coding coding;  ///< groups: those that share a scale, or a floor of tokens' scales; with a shared amax the
                  ///< scales are of that, and nothing is measured
  bool has_shift = false;   ///< what K is shifted by is there
  ScaleFloors floors = {};  ///< of sequences of one token
  int rows_of_part = 0;     ///< of a block of threads; set by the launch
};

/// An operand as kernels take it that do all of its steps, which may be one that none of them takes. False
/// where it has other steps, or no rows.
Result<bool> as_short_operand(const PlainOperand& operand, ShortOperand& out);

/// Whether launch_short_sequences() takes the operand: dense sequences of 16-bit numbers that shared memory
/// holds, scales and floors of no more than a sequence or of a shared amax.
bool takes_short_sequences(const ShortOperand& operand);

/// The same of longer ones, whose rows have nothing in common, so that blocks of threads hold parts of them.
bool takes_parts_of_sequences(const ShortOperand& operand);

/// Whether codes are s8 of dense sequences of aligned 16-bit rows, read and written 16 bytes at a time, whose
/// scales are made of what a sequence has: what the kernels of held sequences and of windows ask for.
bool is_of_dense_s8(const ShortOperand& operand);

/// Means, exponents, scales and codes of up to kMostTogether operands.
void launch_short_sequences(std::span<const ShortOperand> operands, void* stream);

}  // namespace octet::cuda
