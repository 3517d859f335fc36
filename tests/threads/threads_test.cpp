// Results do not depend on threads: how many there are, whose they are, or that others use the same plan.
// Small, for ThreadSanitizer runs it whole.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "octet/octet.hpp"

namespace octet {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kHeadsKv = 2, kTokens = 70, kDim = 32;

/// Runs items on four threads, each taking the next one.
void run_on_four(void*, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t i; (i = next.fetch_add(1)) < count;) body(context, i);
    });
  }
}

void run_inline(void*, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
  for (std::int64_t i = 0; i < count; ++i) body(context, i);
}

struct Inputs {
  std::vector<float> q = numbers(kHeads, 1), k = numbers(kHeadsKv, 2), v = numbers(kHeadsKv, 3);

  static std::vector<float> numbers(std::int64_t heads, std::uint32_t state) {
    std::vector<float> x(static_cast<std::size_t>(kBatch * heads * kTokens * kDim));
    for (float& value : x) {
      state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator: any numbers will do
      value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
    }
    return x;
  }
  TensorView view(const std::vector<float>& x, std::int64_t heads) const {
    return view_bhsd(x.data(), DType::f32, {kBatch, heads, kTokens, kDim});
  }
};

/// Output and LSE, as one block of memory to compare.
std::vector<float> attend(const Inputs& in, const AttentionPlan& plan,
                          void (*run)(void*, std::int64_t, void (*)(void*, std::int64_t), void*)) {
  const std::size_t outputs = static_cast<std::size_t>(kBatch * kHeads * kTokens * kDim);
  std::vector<float> result(outputs + outputs / kDim, -1.0f);
  Result<Workspace> workspace = Workspace::allocate(plan.workspace_bytes());
  EXPECT_TRUE(workspace.ok());
  AttentionArgs args;
  args.q.codes = in.view(in.q, kHeads), args.k.codes = in.view(in.k, kHeadsKv),
  args.v.codes = in.view(in.v, kHeadsKv);
  args.o = view_bhsd(result.data(), DType::f32, {kBatch, kHeads, kTokens, kDim});
  args.lse = view_bhsd(result.data() + outputs, DType::f32, {kBatch, kHeads, kTokens, 1});
  args.workspace = workspace.value().data(), args.workspace_bytes = workspace.value().bytes();
  args.parallel_for = {run, nullptr};
  const Status status = plan.run(args);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

class Threads : public ::testing::TestWithParam<int> {
 protected:
  AttentionPlan make_plan(const Inputs& in) const {
    Result<AttentionDesc> desc = describe(static_cast<Scheme>(GetParam()), in.view(in.q, kHeads),
                                          in.view(in.k, kHeadsKv), in.view(in.v, kHeadsKv));
    EXPECT_TRUE(desc.ok()) << desc.status().message();
    desc.value().mask = Mask::causal;
    desc.value().wants_lse = true;
    desc.value().key_block = 32;
    Result<AttentionPlan> plan = AttentionPlan::create(desc.value());
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.take();
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(Threads, FourGiveTheBitsOfOne) {
  const Inputs in;
  const AttentionPlan plan = make_plan(in);
  EXPECT_TRUE(same_bits(attend(in, plan, run_inline), attend(in, plan, run_on_four)));
}

TEST_P(Threads, OctetsOwnGiveTheBitsOfOne) {
  const Inputs in;
  const AttentionPlan plan = make_plan(in);
  EXPECT_TRUE(same_bits(attend(in, plan, run_inline), attend(in, plan, nullptr)));
}

TEST_P(Threads, TwoCallersMayShareAPlan) {
  const Inputs in;
  const AttentionPlan plan = make_plan(in);
  const std::vector<float> alone = attend(in, plan, run_inline);
  std::vector<float> first, second;
  {
    const std::jthread a([&] { first = attend(in, plan, run_inline); });
    const std::jthread b([&] { second = attend(in, plan, run_on_four); });
  }
  EXPECT_TRUE(same_bits(alone, first));
  EXPECT_TRUE(same_bits(alone, second));
}

INSTANTIATE_TEST_SUITE_P(EveryScheme, Threads, ::testing::Range(0, kSchemes),
                         [](const auto& scheme) { return name_of(static_cast<Scheme>(scheme.param)); });

}  // namespace
}  // namespace octet
