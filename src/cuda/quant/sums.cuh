// Sums over tokens on the GPU, in TreeSum's order: leaves of 128 tokens, each summed by the threads of one
// row, and pairs above them.
#pragma once
#include "cuda/quant/rows.cuh"
#include "quant/tree.h"

namespace octet::cuda {

/// The leaves of a tensor's sequences in scratch memory: [slot][channel].
struct Leaves {
  Groups groups;            ///< of TreeSum::kLeafTokens
  std::int64_t stride = 0;  ///< channels of a slot
  float* sum = nullptr;
  std::uint32_t* least = nullptr;  ///< bits of the least |x| that is not 0, those of Inf where all are
  std::uint32_t* most = nullptr;   ///< bits of the largest |x|
};

/// K's mean of every sequence and head, from the rows as they come, into `mean` (QuantizedTensor::mean).
void launch_mean(const RowReading& rows, const Leaves& leaves, const TensorView& mean, void* stream);

/// The anchor of every sequence and head, or its first token where the anchor's data is null.
void launch_anchor(const RowReading& rows, const TensorView& anchor, const TensorView& mean, void* stream);

/// V's channel exponents of every sequence and head, from the shifted and rotated rows, into `exponent`.
/// again: a word a sequence and head, in scratch.
void launch_exponents(const RowReading& rows, const Leaves& leaves, std::uint32_t* again,
                      const TensorView& exponent, void* stream);

}  // namespace octet::cuda
