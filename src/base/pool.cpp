#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/pause.h"
#include "base/scratch.h"

namespace octet::pool {
namespace {

/// Longer than it takes to see the next call of a layer, shorter than it takes to annoy whoever else wants
/// the processor: a thread that finds nothing for this long sleeps.
constexpr std::chrono::microseconds kSpin{20};

/// On which processors a call may run.
struct Affinity {
  cpu_set_t set;

  static Affinity of_this_thread() {
    Affinity affinity;
    CPU_ZERO(&affinity.set);
    // note: fails on machines of more than 1024 processors; an empty set then counts as unknown.
    if (sched_getaffinity(0, sizeof affinity.set, &affinity.set) != 0) CPU_ZERO(&affinity.set);
    return affinity;
  }
  int count() const { return CPU_COUNT(&set); }
  bool operator==(const Affinity& other) const { return CPU_EQUAL(&set, &other.set); }
  void impose_on_this_thread() const {
    if (count() > 0) sched_setaffinity(0, sizeof set, &set);
  }
};

/// One call's work. Threads share it, so that a helper which comes late can still look at `next`; `context`
/// may be used only by whoever has claimed an item, for the caller leaves when those are done.
struct Job {
  using Body = void (*)(void*, std::int64_t) noexcept;

  Job(std::int64_t items, Body what, void* with, int helpers, const Affinity& where)
      : count(items), body(what), context(with), affinity(where), unfinished(items), seats(helpers) {}

  const std::int64_t count;
  const Body body;
  void* const context;
  const Affinity affinity;
  alignas(64) std::atomic<std::int64_t> next{0};  // its own line: every claim writes it
  alignas(64) std::atomic<std::int64_t> unfinished;
  int seats;  ///< helpers that may still join; guarded by the pool's mutex
  std::mutex mutex;
  std::condition_variable finished;

  bool all_claimed() const { return next.load(std::memory_order_relaxed) >= count; }

  void work() {
    std::int64_t done = 0;
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count; ++done) body(context, i);
    // Release: the caller sees what these items wrote. One subtraction a thread, not one an item.
    if (done > 0 && unfinished.fetch_sub(done, std::memory_order_acq_rel) == done) {
      const std::lock_guard lock(mutex);
      finished.notify_one();
    }
  }

  void wait() {
    const auto all_done = [this] { return unfinished.load(std::memory_order_acquire) == 0; };
    if (spin_until(all_done, kSpin)) return;
    std::unique_lock lock(mutex);
    finished.wait(lock, all_done);
  }
};

/// Signals are for the program's own threads: those that start within this scope take none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// True on a thread that is inside a body: what it calls runs on it alone.
thread_local bool inside = false;

class Pool {
 public:
  /// Threads of a call under `affinity`, the caller among them.
  int threads_under(const Affinity& affinity) const { return wanted_ > 0 ? wanted_ : affinity.count(); }

  void run(const std::shared_ptr<Job>& job) {
    post(job);
    inside = true;
    job->work();
    inside = false;
    remove(job.get());
    job->wait();
  }

  /// Ends the threads, each after the job that it is at.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      posts_.fetch_add(1, std::memory_order_release);
    }
    posted_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    std::vector<std::thread>().swap(workers_);
    std::vector<std::shared_ptr<Job>>().swap(jobs_);
  }

 private:
  void post(const std::shared_ptr<Job>& job) {
    int wake = 0;
    bool wake_all = false;
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(job);
      posts_.fetch_add(1, std::memory_order_release);
      wake = std::min(job->seats, parked_);
      wake_all = wake == parked_;
      start_workers(job->seats);
    }
    if (wake_all && wake > 0) return posted_.notify_all();
    for (; wake > 0; --wake) posted_.notify_one();
  }

  void remove(const Job* job) {
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [&](const std::shared_ptr<Job>& other) { return other.get() == job; });
  }

  void start_workers(int count) {
    if (closed_ || static_cast<int>(workers_.size()) >= count) return;
    const SignalsBlocked blocked;
    try {
      workers_.reserve(static_cast<std::size_t>(count));
      while (static_cast<int>(workers_.size()) < count) {
        workers_.emplace_back([this] { help(); });
        pthread_setname_np(workers_.back().native_handle(), "octet");
      }
    } catch (const std::system_error&) {
      // A system that starts no more threads: those that there are do the work.
    } catch (const std::bad_alloc&) {
    }
  }

  /// A worker's life: join a job that has seats and items, else look out for one, else sleep.
  void help() {
    inside = true;
    Affinity current = Affinity::of_this_thread();
    std::unique_lock lock(mutex_);
    while (!closed_) {
      std::shared_ptr<Job> job = take_seat();
      if (!job) {
        await_post(lock);
        continue;
      }
      lock.unlock();
      if (!(job->affinity == current)) {
        current = job->affinity;
        current.impose_on_this_thread();
      }
      job->work();
      job.reset();
      lock.lock();
    }
  }

  std::shared_ptr<Job> take_seat() {
    for (const std::shared_ptr<Job>& job : jobs_) {
      if (job->seats == 0 || job->all_claimed()) continue;
      --job->seats;
      return job;
    }
    return nullptr;
  }

  void await_post(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t seen = posts_.load(std::memory_order_relaxed);
    const auto posted = [&] { return posts_.load(std::memory_order_acquire) != seen; };
    lock.unlock();
    spin_until(posted, kSpin);
    lock.lock();
    ++parked_;
    posted_.wait(lock, posted);
    --parked_;
  }

  const int wanted_ = env::threads();
  std::mutex mutex_;  // guards what follows
  std::condition_variable posted_;
  std::vector<std::shared_ptr<Job>> jobs_;  ///< calls that are running
  std::vector<std::thread> workers_;
  int parked_ = 0;  ///< workers that sleep
  bool closed_ = false;
  std::atomic<std::uint64_t> posts_{
      0};  ///< changes, under the mutex, with each job; spinning workers read it
};

/// The pool of this process. Its storage is never given back, so that a call which is under way on a detached
/// thread while the program exits still finds it.
enum class State { absent, making, ready, closed };
constinit std::atomic<State> state{State::absent};
alignas(Pool) constinit std::byte storage[sizeof(Pool)] = {};
Pool& stored() { return *std::launder(reinterpret_cast<Pool*>(storage)); }

/// In a child of fork() there are no workers, and locks may be as a thread that is gone left them: begin
/// anew.
void forget() {
  if (state.load() != State::closed) state.store(State::absent);
}

/// Null once the library is closing.
Pool* pool_of_this_process() {
  State seen = state.load(std::memory_order_acquire);
  if (seen == State::absent && state.compare_exchange_strong(seen, State::making)) {
    // note: a child of fork() comes here again, and inherits the handler.
    static constinit bool handles_fork = false;
    if (!handles_fork) handles_fork = pthread_atfork(nullptr, nullptr, forget) == 0;
    ::new (storage) Pool;
    state.store(State::ready, std::memory_order_release);
    return &stored();
  }
  while (seen == State::making) {
    std::this_thread::yield();
    seen = state.load(std::memory_order_acquire);
  }
  return seen == State::ready ? &stored() : nullptr;
}

struct Closer {
  Closer() { keep_scratches(); }
  ~Closer() {
    if (state.exchange(State::closed) == State::ready) stored().close();
  }
} closer;

}  // namespace

std::int64_t threads(std::int64_t count) {
  Pool* const pool = count > 1 && !inside ? pool_of_this_process() : nullptr;
  return pool ? std::clamp<std::int64_t>(pool->threads_under(Affinity::of_this_thread()), 1, count) : 1;
}

void run(std::int64_t count, void (*body)(void*, std::int64_t) noexcept, void* context) {
  if (count > 1 && !inside) {
    if (Pool* pool = pool_of_this_process()) {
      const Affinity affinity = Affinity::of_this_thread();
      const std::int64_t threads = std::min<std::int64_t>(pool->threads_under(affinity), count);
      if (threads > 1)
        return pool->run(
            std::make_shared<Job>(count, body, context, static_cast<int>(threads) - 1, affinity));
    }
  }
  const bool before = inside;
  inside = true;
  for (std::int64_t i = 0; i < count; ++i) body(context, i);
  inside = before;
}

}  // namespace octet::pool
