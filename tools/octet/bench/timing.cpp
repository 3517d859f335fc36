#include "bench/timing.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <utility>

namespace octet::tool {
namespace {

using Clock = std::chrono::steady_clock;

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

double quantile(std::vector<double> x, double q) {
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(x.size() - 1));
  std::nth_element(x.begin(), at, x.end());
  return *at;
}

Result<Timing> time_calls(const std::function<Status()>& call, const Sampling& sampling,
                          const std::function<void()>& around) {
  std::vector<double> wall, cpu;
  double total = 0;
  Timing timing;
  const auto wants_more = [&] {
    const int groups = static_cast<int>(wall.size());
    if (groups < sampling.least_groups) return groups < 2 || total < sampling.patience;
    return total < sampling.total_seconds && groups < sampling.most_groups;
  };
  around();
  while (wants_more()) {
    double seconds = 0;
    int calls = 0;
    const double cpu_start = thread_seconds();
    const auto start = Clock::now();
    do {
      if (Status s = call(); !s.ok()) return s;
      ++calls;
      seconds = std::chrono::duration<double>(Clock::now() - start).count();
    } while (seconds < sampling.group_seconds);
    wall.push_back(seconds / calls);
    cpu.push_back((thread_seconds() - cpu_start) / calls);
    total += seconds;
    timing.calls += calls;
    around();
  }
  timing.median = quantile(wall, 0.5), timing.p90 = quantile(wall, 0.9);
  timing.cpu_median = quantile(cpu, 0.5);
  timing.groups = std::move(wall);
  return timing;
}

BusyProcesses::BusyProcesses(int count) {
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // even if the parent is killed
      volatile std::uint64_t x = 1;
      for (;;) x = x * 3 + 1;
    }
    processes_.push_back(child);
  }
}

BusyProcesses::~BusyProcesses() {
  for (const int child : processes_) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}

}  // namespace octet::tool
