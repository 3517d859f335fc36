// How long a call takes.
#pragma once
#include <functional>
#include <vector>

#include "octet/status.hpp"

namespace octet::tool {

struct Timing {
  std::vector<double> groups;  ///< seconds a call of each, in the order of time
  double median = 0, p90 = 0;  ///< seconds a call, over groups
  double cpu_median = 0;       ///< the calling thread's processor time
  int calls = 0;
};

struct Sampling {
  double group_seconds =
      0.004;  ///< a group repeats calls until it lasts so long that clock and scheduler do not matter
  double total_seconds = 0.2;  ///< groups are added until they last so long together
  int least_groups = 3, most_groups = 51;
  double patience = 1;  ///< seconds after which two groups are enough
};

/// Times `call`, which has run before. The first error ends it. around: runs before the first group and after
/// each one, untimed.
Result<Timing> time_calls(
    const std::function<Status()>& call, const Sampling& sampling,
    const std::function<void()>& around = [] {});

/// The value at share `q` of `x` in order; of an even number, the median is the smaller of the middle two.
double quantile(std::vector<double> x, double q);

/// Processes that only compute, beside the ones that are measured: what a shared machine is like.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count);
  ~BusyProcesses();
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;

 private:
  std::vector<int> processes_;
};

}  // namespace octet::tool
