// The 68 claims of the papers, each with the paper's figure, ours and a verdict.
#pragma once
#include <string>
#include <vector>

#include "accuracy/measurements.h"

namespace octet::tool {

struct Claim {
  int number = 0;
  std::string claim, paper;
  std::string protocol;  ///< of a measured claim
  std::string command;   ///< what measures it; of an open one, what it waits for
  std::string ours;
  std::string verdict;  ///< reproduced, corrected, beaten, not reproducible (why), or open
  bool measured = false;
};

/// All of them, in the order of their numbers. "ours" and the verdicts of measured claims follow from the
/// figures: what was not measured is judged "not measured".
std::vector<Claim> claims_of(const Measurements& measured);

}  // namespace octet::tool
