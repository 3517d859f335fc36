// The loop of every probe, included once for each instruction set: anonymous, so that each keeps its own
// copy.
#include <immintrin.h>

#include <cstdint>

namespace octet::probe {
namespace {

/// A round is one step of each of 12 chains: enough for two instructions a cycle of 5 cycles' latency, and
/// few enough for 16 registers with operands.
template <class Vector, class Step>
inline __attribute__((always_inline)) void run_chains(std::int64_t rounds, Vector start, Step step) {
  // note: variables, not an array, which g++ 12 keeps in memory.
  Vector a = start, b = start, c = start, d = start, e = start, f = start;
  Vector g = start, h = start, i = start, j = start, k = start, l = start;
  // note: opaque values, or equal chains would be computed once.
  asm volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f));
  asm volatile("" : "+v"(g), "+v"(h), "+v"(i), "+v"(j), "+v"(k), "+v"(l));
  for (std::int64_t round = 0; round < rounds; ++round) {
    a = step(a), b = step(b), c = step(c), d = step(d), e = step(e), f = step(f);
    g = step(g), h = step(h), i = step(i), j = step(j), k = step(k), l = step(l);
  }
  // note: unused results would be optimised away.
  asm volatile("" : : "v"(a), "v"(b), "v"(c), "v"(d), "v"(e), "v"(f));
  asm volatile("" : : "v"(g), "v"(h), "v"(i), "v"(j), "v"(k), "v"(l));
}

}  // namespace
}  // namespace octet::probe
