#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "base/pool.h"

namespace octet {
namespace {

void run_on_a_thread(void*, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
  std::jthread([&] {
    for (std::int64_t i = 0; i < count; ++i) body(context, i);
  });
}

class Parallel : public ::testing::TestWithParam<bool> {
 protected:
  ParallelFor pool() const { return {GetParam() ? run_on_a_thread : nullptr, nullptr}; }
};

TEST_P(Parallel, RunsEveryItemOnce) {
  std::vector<std::atomic<int>> runs(1000);
  for_each_parallel(pool(), 1000, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
  for (const auto& n : runs) EXPECT_EQ(n, 1);
}

TEST_P(Parallel, NothingToDoIsDone) {
  for_each_parallel(pool(), 0, [](std::int64_t) { FAIL() << "there is no item"; });
}

TEST_P(Parallel, AnExceptionReachesTheCaller) {
  EXPECT_THROW(for_each_parallel(pool(), 100,
                                 [](std::int64_t i) {
                                   if (i == 40) throw std::bad_alloc();
                                 }),
               std::bad_alloc);
}

TEST_P(Parallel, ManyItemsFillAllThreadsAndOneMoreThanThemDoesNot) {
  const std::int64_t processors = std::max(1u, std::thread::hardware_concurrency());
  EXPECT_TRUE(fills_threads(pool(), 8 * processors + 1));
  if (GetParam()) {
    EXPECT_FALSE(fills_threads(pool(), 8 * processors - 1));
    return;
  }
  const std::int64_t threads = pool::threads(1000);
  EXPECT_TRUE(fills_threads(pool(), threads));
  EXPECT_EQ(fills_threads(pool(), threads + 1), threads == 1);
  for_each_parallel(pool(), 4, [&](std::int64_t) { EXPECT_EQ(pool::threads(1000), 1); });
}

INSTANTIATE_TEST_SUITE_P(OwnThreadsAndACallers, Parallel, ::testing::Bool());

}  // namespace
}  // namespace octet
