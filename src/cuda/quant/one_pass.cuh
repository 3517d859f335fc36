// The kernel of one_pass.cu.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// What statistic the rows' shift or exponents come from.
enum class Statistic : std::int32_t {
  mean,   ///< of K, which is rotated
  norms,  ///< of V's channels, and their largest, which is all that is wanted where nothing is equalised
};

/// Leaves of a sequence (quant::TreeSum) from which on one reading in parts of all sequences is the faster
/// way. Of 64 heads of 1024 tokens V took 24 us so and 21 in two readings, of 2048 31 in both (H200, when a
/// processor had one warp that ended trees). Of longer ones, and of fewer heads of 2048, this is the faster.
inline constexpr int kLeastLeavesOfUnit = 16;

/// Bytes of scratch memory that launch_one_pass() needs for x of `shape`.
std::int64_t one_pass_bytes(const std::array<std::int64_t, 4>& shape, Statistic statistic);

/// Whether launch_one_pass() takes these rows and codes, and is the faster way: s8 of 16-bit rows, with
/// scales of tokens, of K's key blocks, or of V's sequences or their channels. rows: with the shift or
/// exponent that the statistic is written to.
bool takes_one_pass(const RowReading& rows, const Coding& coding);

/// What its blocks of threads tell each other is untold from then on: before each launch_one_pass().
void clear_for_one_pass(const RowReading& rows, void* scratch, Begin begin, void* stream);

/// An operand that takes_one_pass() takes, with the scratch memory that has been cleared for it.
struct OnePassOperand {
  RowReading rows;
  Coding coding;
  void* scratch;
};

/// Whether one launch takes both: K and V, of as many channels.
bool share_one_pass(const OnePassOperand& a, const OnePassOperand& b);

/// The statistic of every sequence and head of an operand, or of two that share it, and the codes and scales
/// that follow from it. False where the context has not all of the device's processors: nothing is written
/// then.
bool launch_one_pass(std::span<const OnePassOperand> operands, void* stream);

}  // namespace octet::cuda
