// Sums over tokens on the GPU, in TreeSum's order: leaves of 128 tokens, each summed by the threads of one
// row, pairs above them in the same block of threads as far as it has leaves, and the rest of each tree.
#pragma once
#include <array>
#include <cstdint>

#include "cuda/quant/scaling.cuh"
#include "quant/tree.h"

namespace octet::cuda {

inline constexpr int kLeafThreads = 128;  ///< of a block that adds leaves

/// log2 of the leaves of a subtree: those that a block has beside each other, fewer where sequences have
/// less.
int subtree_leaves_log2(const std::array<std::int64_t, 4>& shape, std::int64_t packed_sequences,
                        std::int64_t channels);

/// The subtrees of a tensor's sequences in scratch memory: [slot][channel].
struct Subtrees {
  Groups groups;  ///< of TreeSum::kLeafTokens << leaves_log2 tokens
  int leaves_log2 = 0;
  std::int64_t stride = 0;  ///< channels of a slot
  float* sum = nullptr;
  std::uint32_t* range = nullptr;  ///< as range_of_sizes() makes them
};

/// Sums of the subtrees of K's rows as they come; from them its mean of every sequence and head, into `mean`
/// (QuantizedTensor::mean).
void launch_sums(const RowReading& rows, const Subtrees& trees, void* stream);
void launch_mean(const RowReading& rows, const Subtrees& trees, const TensorView& mean, void* stream);

/// The anchor of every sequence and head, or its first token where the anchor's data is null.
void launch_anchor(const RowReading& rows, const TensorView& anchor, const TensorView& mean, void* stream);

/// Sums of squares of V's shifted rows, where these are not rotated; V's channel exponents of every sequence
/// and head, from these sums or, of rotated rows, from the rows alone, into `exponent`.
/// scaling: scales of sequences or their channels that follow; those of 16-bit rows that are not shifted may
/// be asked for.
void launch_squares(const RowReading& rows, const Subtrees& trees, void* stream);
void launch_exponents(const RowReading& rows, const Subtrees& trees, const TensorView& exponent,
                      const SequenceScaling& scaling, void* stream);

}  // namespace octet::cuda
