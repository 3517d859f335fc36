// What octet's own threads add to the work: a call of ITEMS items of MICROSECONDS each, by the pool and on
// one thread, alternating, as medians and 90th percentiles. BUSY processes that only compute run beside it.
//
//   pool_overhead [ITEMS=16 [MICROSECONDS=60 [BUSY=0 [CALLS=400]]]]
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/parallel.h"

namespace octet {
namespace {

using Clock = std::chrono::steady_clock;

thread_local volatile std::uint64_t sink;

/// Steps of a chain of multiplications, which no compiler shortens and no other thread slows down.
void multiply(std::int64_t steps) {
  std::uint64_t x = sink;
  for (std::int64_t i = 0; i < steps; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  sink = x;
}

template <class Work>
double microseconds(Work&& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double quantile(std::vector<double>& x, double q) {
  const auto at = x.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(x.size() - 1));
  std::nth_element(x.begin(), at, x.end());
  return *at;
}

/// Steps that last so long when nothing interrupts: by the fastest of some trials.
std::int64_t steps_of(double wanted_us) {
  constexpr std::int64_t kTrial = 1'000'000;
  double fastest = 1e9;
  for (int i = 0; i < 50; ++i) fastest = std::min(fastest, microseconds([] { multiply(kTrial); }));
  return static_cast<std::int64_t>(wanted_us / fastest * kTrial);
}

void run_inline(void*, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
  for (std::int64_t i = 0; i < count; ++i) body(context, i);
}

void measure(std::int64_t items, double item_us, int calls) {
  const std::int64_t steps = steps_of(item_us);
  const auto call = [&](const ParallelFor& how) {
    return microseconds([&] { for_each_parallel(how, items, [&](std::int64_t) { multiply(steps); }); });
  };
  std::vector<double> awake, asleep, one;
  for (int i = 0; i < calls; ++i) {
    asleep.push_back(call({}));
    awake.push_back(call({}));
    one.push_back(call({run_inline, nullptr}));  // lasts long enough for the others to fall asleep
  }
  const auto print = [](const char* what, std::vector<double>& us) {
    std::printf("%-22s %8.0f us (p90 %.0f)\n", what, quantile(us, 0.5), quantile(us, 0.9));
  };
  std::printf("%lld items of %.0f us\n", static_cast<long long>(items), item_us);
  print("pool, right after", awake);
  print("pool, threads asleep", asleep);
  print("one thread", one);
}

std::vector<pid_t> start_busy(int count) {
  std::vector<pid_t> busy;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) multiply(1'000'000);
    }
    busy.push_back(child);
  }
  return busy;
}

}  // namespace
}  // namespace octet

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const std::vector<pid_t> busy = octet::start_busy(argument(3, 0));
  octet::measure(argument(1, 16), argument(2, 60), argument(4, 400));
  for (const pid_t child : busy) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
}
