// The shapes of the cpu suite.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "octet/types.hpp"

namespace octet::tool {

/// What a workload stands for, which decides what is varied on it.
enum class Kind {
  vision,   ///< heads of a vision transformer: short, all variants
  prefill,  ///< a thousand keys: all variants
  longer,   ///< four thousand keys: the default key block and the widest
  decode,   ///< few queries, long keys that lie quantised in memory: bound by reading them
};

struct CpuWorkload {
  const char* name;
  Kind kind;
  std::int64_t batch, heads_q, heads_kv, tokens_q, tokens_k, head_dim;
  Mask mask = Mask::none;
  bool biased = false;  ///< a bias [1, heads, tokens_q, tokens_k], as Swin's relative positions
};

/// In the order in which they are measured: short ones first, for their speeds foretell the longer ones'.
std::span<const CpuWorkload> cpu_workloads();

/// Multiplications and additions of both products over the pairs that are visible, in units of 1e9; a causal
/// mask counts half, as everyone counts it.
double giga_operations(const CpuWorkload& workload);

/// "12 x 197 x 64", "64 x 3 x 49 x 32, bias", "16 x 1024 x 64, causal", "32 over 8 x 1 of 32768 x 128".
std::string shape_of(const CpuWorkload& workload);

}  // namespace octet::tool
