#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "base/pool.h"

namespace octet {
namespace {

/// The caller's work with its first exception held back: none may pass through a thread or a pool that is not
/// ours.
struct Guarded {
  void (*body)(void*, std::int64_t);
  void* context;
  std::atomic<bool> failed{false};
  std::exception_ptr first = nullptr;

  void run(std::int64_t i) noexcept {
    if (failed.load(std::memory_order_relaxed)) return;
    try {
      body(context, i);
    } catch (...) {
      if (!failed.exchange(true)) first = std::current_exception();
    }
  }
  static void run_item(void* guarded, std::int64_t i) noexcept { static_cast<Guarded*>(guarded)->run(i); }
};

}  // namespace

void run_parallel(const ParallelFor& parallel_for, std::int64_t count, void (*body)(void*, std::int64_t),
                  void* context) {
  Guarded work{body, context};
  if (parallel_for.run) {
    parallel_for.run(parallel_for.pool, count, Guarded::run_item, &work);
  } else {
    pool::run(count, Guarded::run_item, &work);
  }
  if (work.first) std::rethrow_exception(work.first);
}

std::int64_t threads_of(const ParallelFor& parallel_for, std::int64_t count) {
  static const std::int64_t processors = std::max(1u, std::thread::hardware_concurrency());
  return parallel_for.run ? processors : pool::threads(count);
}

bool fills_threads(const ParallelFor& parallel_for, std::int64_t count) {
  constexpr std::int64_t kRounds = 8;  // the last of which may be of few
  const std::int64_t threads = threads_of(parallel_for, count);
  return count >= kRounds * threads || (!parallel_for.run && count % threads == 0);
}

}  // namespace octet
