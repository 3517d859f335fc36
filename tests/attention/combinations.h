// Calls that take several features of attention at once, drawn from a seed: what tests of one feature after
// the other leave out is how they meet.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/attention/calls.h"

namespace octet::testing {

struct Combination {
  Call call;
  std::string what;                                              ///< the seed and the features, for messages
  std::shared_ptr<std::vector<std::uint16_t>> bias_memory = {};  ///< what call.any_bias views
};

/// Lengths, heads, head dims, layouts, types in memory, masks, windows, packed sequences, biases, key blocks,
/// scales, numbers, and of what the scheme accepts its recipe and options. Some are refused, by every backend
/// alike. The same seed gives the same call.
Combination combination(Scheme scheme, std::uint64_t seed);

/// What is wrong with outputs of a combination that a backend says it has computed: written outside of them,
/// or an element beyond the scheme's bound of float64 attention and the rounding to its type in memory.
/// Empty: nothing.
std::string fault_in(const Combination& made, Scheme scheme, Output got);

/// Seeds that a test goes through: `usual` of them from 1 on, unless OCTET_COMBINATIONS is a number, which is
/// taken in its place, or "first-last". Throws std::invalid_argument where it is anything else: no test
/// passes because it went through no seed.
struct Seeds {
  std::uint64_t first, last;
};
Seeds seeds(std::uint64_t usual);

}  // namespace octet::testing
