// The thresholds that octet's accuracy is held to, each with what was measured.
#pragma once
#include <string>
#include <vector>

#include "accuracy/measurements.h"

namespace octet::tool {

enum class Verdict {
  passes,
  fails,
  open,           ///< not measured here
  beyond_met,     ///< data that the threshold was not set for, met there too
  beyond_missed,  ///< the same, not met: no failure, but shown
};

struct Bar {
  std::string what, threshold, measured;
  Verdict verdict = Verdict::open;
  double worst = 0;  ///< the figure that decided
};

std::vector<Bar> bars_of(const Measurements& measured);
/// The verdict in words; with the figure where data beyond the bar misses the threshold.
std::string verdict_text(const Bar& bar);

}  // namespace octet::tool
