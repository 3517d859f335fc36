#include <algorithm>
#include <chrono>
#include <vector>

#include "probe/probe.h"

namespace octet::probe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSlice = 1e-4;  // seconds; the scheduler's are some milliseconds
constexpr std::size_t kLeastSlices = 5;

double seconds_of(const Instruction& instruction, std::int64_t rounds) {
  const auto start = Clock::now();
  instruction.run(rounds);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

double operations_rate(const Instruction& instruction, double seconds) {
  const auto start = Clock::now();
  std::int64_t rounds = 1024;
  while (seconds_of(instruction, rounds) < kSlice) rounds *= 2;
  std::vector<double> slices;
  while (slices.size() < kLeastSlices ||
         std::chrono::duration<double>(Clock::now() - start).count() < seconds)
    slices.push_back(seconds_of(instruction, rounds));
  const auto middle = slices.begin() + static_cast<std::ptrdiff_t>(slices.size() / 2);
  std::nth_element(slices.begin(), middle, slices.end());
  return 1e-9 * instruction.operations * static_cast<double>(rounds) / *middle;
}

}  // namespace octet::probe
