#include "common/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "common/progress.h"

namespace octet::tool {

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // note: fails on more than 1024 processors; the number of all is then the best guess.
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void Threads::run(void* pool, std::int64_t count, void (*body)(void* context, std::int64_t i),
                  void* context) {
  const Threads& self = *static_cast<Threads*>(pool);
  std::optional<Progress> progress;
  if (!self.what_.empty()) progress.emplace(self.what_, count);
  std::atomic<std::int64_t> next{0}, done{0};
  const auto work = [&](bool shows) {
    std::int64_t shown = 0;
    for (std::int64_t i = next++; i < count; i = next++) {
      body(context, i);
      const std::int64_t finished = ++done;
      if (!shows || !progress) continue;  // note: one thread draws; Progress is not shared
      progress->advance(finished - shown);
      shown = finished;
    }
  };
  std::vector<std::jthread> others;
  try {
    for (std::int64_t t = 1; t < std::min<std::int64_t>(self.count_, count); ++t)
      others.emplace_back(work, false);
  } catch (const std::system_error&) {
    // A machine that starts no more threads: those that there are do all the work.
  }
  work(true);
}

}  // namespace octet::tool
