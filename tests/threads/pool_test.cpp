// octet's own threads, seen from below the public interface and, where the whole library is unloaded, from
// above it. Each case that depends on OCTET_THREADS or on a fresh pool runs in a process of its own.
#include "base/pool.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"
#include "octet/octet.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define OCTET_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define OCTET_ADDRESS_SANITIZER
#endif
#endif

namespace octet {
namespace {

using namespace std::chrono_literals;

template <class Body>
void for_each_on_own(std::int64_t count, Body&& body) {
  for_each_parallel(ParallelFor{}, count, body);
}

/// The pool of this process, which must not have been used before, has `threads` threads.
void set_threads(int threads) { setenv("OCTET_THREADS", std::to_string(threads).c_str(), 1); }

/// Binds the calling thread to the processor that it runs on.
cpu_set_t bind_to_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
  sched_setaffinity(0, sizeof one, &one);
  return one;
}

/// Runs `statement` in a child process, which ends with 0 where it returns true. Its pool starts anew.
template <class Statement>
int in_child(Statement&& statement) {
  const pid_t child = fork();
  if (child == 0) _exit(statement() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// The ids of the threads that ran `count` items. Items wait until `meet` threads have come, or for
/// `patience`, so that idle helpers get the time to join.
std::set<std::thread::id> threads_of_a_call(std::int64_t count, std::size_t meet,
                                            std::chrono::milliseconds patience = 5s) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto enough = [&] {
    const std::lock_guard lock(mutex);
    return seen.size() >= meet;
  };
  const auto end = std::chrono::steady_clock::now() + patience;
  for_each_on_own(count, [&](std::int64_t) {
    {
      const std::lock_guard lock(mutex);
      seen.insert(std::this_thread::get_id());
    }
    while (!enough() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(100us);
  });
  return seen;
}

/// How long a thread that must not come is waited for.
constexpr auto kTimeToJoin = 200ms;

/// Threads of this process that are a pool's, by their name: sanitizers have threads of their own.
int pool_threads() {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(thread.path() / "comm");
    std::string name;
    count += std::getline(comm, name) && name == "octet";
  }
  return count;
}

/// A call of a library that was loaded at run time, with enough heads for every thread.
bool quantize_through(void* library) {
  const auto layout =
      reinterpret_cast<decltype(&octet_quantized_layout)>(dlsym(library, "octet_quantized_layout"));
  const auto quantize = reinterpret_cast<decltype(&octet_quantize)>(dlsym(library, "octet_quantize"));
  const std::array<std::int64_t, 4> shape{1, 16, 8, 8};
  std::vector<float> x(1024, 1.0f), scales(1024);
  std::vector<std::int8_t> codes(1024);
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe, recipe.format = OCTET_S8, recipe.granularity = OCTET_PER_TOKEN;
  octet_quantized_tensor out{};
  if (layout(shape.data(), &recipe, 0, &out) != OCTET_OK) return false;
  out.codes.data = codes.data(), out.scales.data = scales.data();
  const octet_tensor in = abi::to_c(view_bhsd(x.data(), DType::f32, shape));
  return quantize(&in, &recipe, nullptr, &out, nullptr) == OCTET_OK && codes.back() == 127;
}

TEST(Pool, RunsEveryItemOnceForAnyNumberOfThreads) {
  for (int threads : {1, 2, 3, 8}) {
    EXPECT_EQ(in_child([threads] {
                set_threads(threads);
                for (std::int64_t count : {0, 1, 2, 7, 1000}) {
                  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
                  for_each_on_own(count, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
                  for (const auto& n : runs) {
                    if (n != 1) return false;
                  }
                }
                return true;
              }),
              0)
        << threads << " threads";
  }
}

TEST(Pool, AsManyThreadsAsTheVariableSays) {
  for (int threads : {1, 2, 4}) {
    EXPECT_EQ(in_child([threads] {
                set_threads(threads);
                const auto wanted = static_cast<std::size_t>(threads);
                return threads_of_a_call(64, wanted).size() == wanted &&
                       threads_of_a_call(64, wanted + 1, kTimeToJoin).size() <= wanted;
              }),
              0)
        << threads << " threads";
  }
}

TEST(Pool, AVariableThatIsNoCountCountsAsUnset) {
  for (const char* text : {"", "0", "-3", "two", "2x", "99999"}) {
    EXPECT_EQ(in_child([text] {
                setenv("OCTET_THREADS", text, 1);
                bind_to_one_processor();
                return threads_of_a_call(4, 2, kTimeToJoin).size() == 1;
              }),
              0)
        << text;
  }
}

TEST(Pool, AThreadBoundToOneProcessorWorksAlone) {
  EXPECT_EQ(in_child([] {
              unsetenv("OCTET_THREADS");
              bind_to_one_processor();
              return threads_of_a_call(16, 2, kTimeToJoin).size() == 1 && pool_threads() == 0;
            }),
            0);
}

TEST(Pool, HelpersRunUnderTheCallersMask) {
  EXPECT_EQ(in_child([] {
              set_threads(2);
              threads_of_a_call(8, 2);  // the helper starts under the whole mask
              const cpu_set_t one = bind_to_one_processor();
              std::atomic<int> elsewhere{0};
              for_each_on_own(64, [&](std::int64_t) {
                cpu_set_t mine;
                sched_getaffinity(0, sizeof mine, &mine);
                elsewhere += !CPU_EQUAL(&mine, &one);
                std::this_thread::sleep_for(100us);
              });
              return elsewhere == 0;
            }),
            0);
}

TEST(Pool, ACallInsideABodyStaysOnItsThread) {
  EXPECT_EQ(in_child([] {
              set_threads(4);
              std::atomic<int> items{0}, strays{0};
              for_each_on_own(8, [&](std::int64_t) {
                const std::thread::id outer = std::this_thread::get_id();
                for_each_on_own(8, [&](std::int64_t) {
                  strays += std::this_thread::get_id() != outer;
                  for_each_on_own(2, [&](std::int64_t) { ++items; });
                });
              });
              return items == 8 * 8 * 2 && strays == 0;
            }),
            0);
}

TEST(Pool, ACallerDoesNotWaitForHelpersThatAreBusyElsewhere) {
  EXPECT_EQ(in_child([] {
              set_threads(2);
              std::latch both_busy(2), second_is_done(1);
              std::jthread first([&] {
                for_each_on_own(2, [&](std::int64_t) {
                  both_busy.count_down();
                  second_is_done.wait();
                });
              });
              both_busy.wait();  // the pool's only helper and its caller now wait for the second call
              std::atomic<int> items{0};
              for_each_on_own(100, [&](std::int64_t) { ++items; });
              second_is_done.count_down();
              return items == 100;
            }),
            0);
}

TEST(Pool, ManyCallersAtOnceEachGetTheirOwnItems) {
  EXPECT_EQ(in_child([] {
              set_threads(3);
              std::atomic<int> wrong{0};
              {
                std::vector<std::jthread> callers;
                for (int c = 0; c < 4; ++c) {
                  callers.emplace_back([&wrong, c] {
                    for (std::int64_t call = 0; call < 300; ++call) {
                      const std::int64_t count = 1 + (call * 7 + c) % 23;
                      std::vector<std::int64_t> out(static_cast<std::size_t>(count), -1);
                      for_each_on_own(count,
                                      [&](std::int64_t i) { out[static_cast<std::size_t>(i)] = i + c; });
                      for (std::int64_t i = 0; i < count; ++i)
                        wrong += out[static_cast<std::size_t>(i)] != i + c;
                    }
                  });
                }
              }
              return wrong == 0;
            }),
            0);
}

TEST(Pool, AnExceptionOnAHelperReachesTheCallerAndLeavesThePoolWhole) {
  EXPECT_EQ(in_child([] {
              set_threads(2);
              for (int call = 0; call < 50; ++call) {
                const std::thread::id caller = std::this_thread::get_id();
                std::latch met(2);
                try {
                  for_each_on_own(2, [&](std::int64_t) {
                    met.arrive_and_wait();  // so that both threads have an item
                    if (std::this_thread::get_id() != caller) throw std::runtime_error("on the helper");
                  });
                  return false;
                } catch (const std::runtime_error&) {
                }
              }
              return true;
            }),
            0);
}

/// Forks `forks` times; each child, and a child of its own, must get two threads for a call.
void expect_whole_pools_after(int forks) {
  for (int i = 0; i < forks; ++i) {
    EXPECT_EQ(in_child([] {
                set_threads(2);
                return threads_of_a_call(8, 2).size() == 2 &&
                       in_child([] { return threads_of_a_call(8, 2).size() == 2; }) == 0;
              }),
              0);
  }
}

TEST(Pool, AChildOfForkGetsAPoolOfItsOwn) {
  threads_of_a_call(8, 2);
  expect_whole_pools_after(4);
}

TEST(Pool, AForkWhileAnotherThreadCallsFindsItsLocksFree) {
#ifdef OCTET_ADDRESS_SANITIZER
  // A program of twenty lines with threads that only allocate fails the same way, three times in 3,000 forks.
  GTEST_SKIP() << "clang 14's AddressSanitizer leaves its allocator locked in a child of fork()";
#endif
  threads_of_a_call(8, 2);
  std::atomic<bool> stop{false};
  std::jthread busy([&] {  // so that a fork finds locks held now and then
    while (!stop) for_each_on_own(4, [](std::int64_t) {});
  });
  expect_whole_pools_after(20);
  stop = true;
}

TEST(Pool, IdleThreadsSleep) {
  threads_of_a_call(8, 2);
  const auto processor_time = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto of = [](const timeval& t) {
      return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
    };
    return of(used.ru_utime) + of(used.ru_stime);
  };
  std::this_thread::sleep_for(10ms);
  const auto before = processor_time();
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(processor_time() - before, 20ms);
}

TEST(Pool, HelpersTakeNoSignals) {
  EXPECT_EQ(in_child([] {
              set_threads(2);
              std::atomic<int> open{0};
              const std::thread::id caller = std::this_thread::get_id();
              std::latch met(2);
              for_each_on_own(2, [&](std::int64_t) {
                met.arrive_and_wait();
                sigset_t blocked;
                pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
                if (std::this_thread::get_id() != caller) open += !sigismember(&blocked, SIGINT);
              });
              return open == 0;
            }),
            0);
}

/// Set by the case below, in a process of its own.
bool calls_late = false;

/// Runs after every destructor of static objects, the pool's among them, for it is registered before them
/// all.
void call_late() {
  if (!calls_late) return;
  int items = 0;
  for_each_on_own(3, [&](std::int64_t) { ++items; });
  _exit(items == 3 && pool_threads() == 0 ? 0 : 1);
}
constexpr int kFirst = 101;  // the earliest priority that is not the compiler's own
__attribute__((constructor(kFirst))) void register_late_call() { std::atexit(call_late); }

TEST(PoolDeathTest, ThreadsEndAtExitAndCallsAfterThatRunInline) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a fresh process, which leaves through exit()
  EXPECT_EXIT(
      {
        set_threads(4);
        calls_late = threads_of_a_call(8, 4).size() == 4;
        std::exit(1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Pool, TellsHowManyThreadsACallUses) {
  EXPECT_EQ(in_child([] {
              set_threads(3);
              return pool::threads(100) == 3 && pool::threads(2) == 2 && pool::threads(1) == 1;
            }),
            0);
}

/// What a host of plug-ins does: load, call, unload. The library leaves neither threads nor its code behind.
TEST(Pool, UnloadingTheLibraryEndsItsThreads) {
  EXPECT_EQ(in_child([] {
              set_threads(3);
              void* library = dlopen(OCTET_LIBRARY, RTLD_NOW | RTLD_LOCAL);
              if (!library) return false;
              const bool called = quantize_through(library);
              const int during = pool_threads();
              return called && during == 2 && dlclose(library) == 0 && pool_threads() == 0 &&
                     !dlopen(OCTET_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
            }),
            0);
}

}  // namespace
}  // namespace octet
