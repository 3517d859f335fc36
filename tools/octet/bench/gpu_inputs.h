// Random operands that any program draws alike, from a seed and a place: bench/peers/gpu.py has the same.
#pragma once
#include <cstdint>

#include "bench/inputs.h"

namespace octet::tool {

enum class Operand : int { q, k, v };

/// The bits, in bf16, of element `i` of an operand in memory order: a normal number of deviation 1, by Box
/// and Muller from two words of splitmix64 in float64, rounded to f32 and then to bf16.
std::uint16_t drawn_bf16(std::uint64_t seed, Operand operand, std::uint64_t i);

/// Q, K and V of the shape, in f32, each value one that bf16 holds. No bias.
Result<CpuInputs> draw_bf16_inputs(const CpuWorkload& workload, std::uint64_t seed, Threads& threads);

/// The values' bits in bf16: their upper halves.
std::vector<std::uint16_t> bf16_bits(const HostTensor& values, Threads& threads);

/// The sum of the bits of all values: by it two programs know that they drew the same.
std::uint64_t sum_of_bits(std::span<const std::uint16_t> bits);

}  // namespace octet::tool
