// Peak rates of this processor, which a benchmark's figures are shares of. One translation unit for each
// instruction set, with flags of its own; they share nothing inline, or the linker might keep the wrong copy.
#pragma once
#include <cstdint>
#include <span>

#include "octet/status.hpp"

namespace octet::probe {

/// One instruction, as many times as it goes: independent chains, operands in registers.
struct Instruction {
  const char* name;
  double operations;  ///< a round: multiplications and additions, each counts one
  bool (*present)();  ///< whether this processor and its system have it
  void (*run)(std::int64_t rounds);
};
std::span<const Instruction> instructions();

/// 1e9 operations a second of the calling thread, over about `seconds` (and 5 slices at least): the median of
/// slices of 0.1 ms, so that losing the processor now and then changes nothing.
double operations_rate(const Instruction& instruction, double seconds);

/// 1e9 bytes a second that the calling thread reads from memory: a buffer larger than its caches.
/// Error: out_of_memory.
Result<double> read_rate(double seconds);

}  // namespace octet::probe
