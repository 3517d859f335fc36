// Whole calls through the C interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "octet/octet.hpp"
#include "tests/capi/support.h"

namespace octet {
namespace {

using testing::Tensor;

/// Relative RMSE of o against scheme exact on the same inputs.
double error_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  Tensor o({q.shape[0], q.shape[1], q.shape[2], v.shape[3]}), exact(o.shape);
  AttentionOptions reference = options;
  reference.scheme = Scheme::exact, reference.recipe.reset(), reference.lse = {};
  const Status ran = attention(q.view(), k.view(), v.view(), o.view(), options);
  EXPECT_TRUE(ran.ok()) << ran.message();
  const Status exact_ran = attention(q.view(), k.view(), v.view(), exact.view(), reference);
  EXPECT_TRUE(exact_ran.ok()) << exact_ran.message();
  double noise = 0, signal = 0;
  for (std::size_t i = 0; i < o.data.size(); ++i) {
    noise += std::pow(double{o.data[i]} - exact.data[i], 2);
    signal += std::pow(double{exact.data[i]}, 2);
  }
  return std::sqrt(noise / signal);
}

TEST(Attend, OneCallComputesAttention) {
  const Tensor q = Tensor::normal({2, 4, 33, 64}, 1), k = Tensor::normal({2, 2, 150, 64}, 2);
  const Tensor v = Tensor::normal({2, 2, 150, 48}, 3);
  AttentionOptions options;
  options.scheme = Scheme::f32;
  EXPECT_LT(error_of(q, k, v, options), 1e-6);
  options.scheme = Scheme::int8;
  EXPECT_LT(error_of(q, k, v, options), 0.03);
  options.mask = Mask::causal;
  EXPECT_LT(error_of(q, k, v, options), 0.03);
}

TEST(Attend, SmoothingIsUndoneInTheLse) {
  const Tensor q = Tensor::normal({1, 2, 20, 32}, 1), v = Tensor::normal({1, 1, 70, 32}, 3);
  Tensor k = Tensor::normal({1, 1, 70, 32}, 2);
  for (std::size_t i = 0; i < k.data.size(); ++i) k.data[i] += 3.0f * static_cast<float>(i % 5);
  Tensor o({1, 2, 20, 32}), lse({1, 2, 20, 1}), exact_lse({1, 2, 20, 1});
  AttentionOptions options;
  options.scheme = Scheme::exact;
  options.lse = exact_lse.view();
  ASSERT_TRUE(attention(q.view(), k.view(), v.view(), o.view(), options).ok());
  options.scheme = Scheme::int8;
  options.lse = lse.view();
  for (Smooth smooth : {Smooth::none, Smooth::mean, Smooth::anchor}) {
    Recipe recipe = default_recipe_of(Scheme::int8).value();
    recipe.smooth = smooth;
    options.recipe = recipe;
    const Status ran = attention(q.view(), k.view(), v.view(), o.view(), options);
    ASSERT_TRUE(ran.ok()) << ran.message();
    for (std::size_t i = 0; i < lse.data.size(); ++i)
      EXPECT_NEAR(lse.data[i], exact_lse.data[i], 0.15) << name_of(smooth) << " row " << i;
  }
}

/// Keys packed once serve other queries: the bits are those of whole calls, and on the SIMD backends nothing
/// looks at k and v again.
TEST(AttendPacked, EveryQueryGetsTheBitsOfAWholeCall) {
  const Tensor k = Tensor::normal({2, 2, 197, 64}, 2), v = Tensor::normal({2, 2, 197, 48}, 3);
  for (const Scheme scheme : {Scheme::f32, Scheme::bf16, Scheme::fp8, Scheme::int8, Scheme::int8_full,
                              Scheme::int8_fp8, Scheme::int4, Scheme::integer, Scheme::qflash}) {
    for (const char* backend : {"", "reference"}) {
      SCOPED_TRACE(std::string(name_of(scheme)) + " on " + backend);
      Tensor keys = k, values = v, o({2, 4, 33, 48}), lse({2, 4, 33, 1});
      const Tensor first = Tensor::normal({2, 4, 33, 64}, 1);
      Result<AttentionDesc> desc = describe(scheme, first.view(), keys.view(), values.view());
      ASSERT_TRUE(desc.ok()) << desc.status().message();
      desc.value().wants_lse = true;
      Result<AttentionPlan> plan = AttentionPlan::create(desc.value(), backend);
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      const auto workspace = [&] { return Workspace::allocate(plan.value().workspace_bytes()); };
      Result<Workspace> kept = workspace(), fresh = workspace();
      ASSERT_TRUE(kept.ok() && fresh.ok());
      AttentionArgs args;
      args.o = o.view(), args.lse = lse.view();
      const auto aim = [&](const Tensor& q, const Tensor& at_k, const Tensor& at_v, const Workspace& memory) {
        args.q.codes = q.view(), args.k.codes = at_k.view(), args.v.codes = at_v.view();
        args.workspace = memory.data(), args.workspace_bytes = memory.bytes();
      };
      aim(first, keys, values, kept.value());
      const Status packed = plan.value().pack(args);
      ASSERT_TRUE(packed.ok()) << packed.message();
      if (plan.value().backend() != std::string("reference")) {
        std::fill(keys.data.begin(), keys.data.end(), NAN);
        std::fill(values.data.begin(), values.data.end(), NAN);
      }
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        const Tensor q = Tensor::normal({2, 4, 33, 64}, seed);
        aim(q, k, v, fresh.value());
        ASSERT_TRUE(plan.value().run(args).ok());
        const std::vector<float> whole = o.data, whole_lse = lse.data;
        std::fill(o.data.begin(), o.data.end(), NAN);
        aim(q, keys, values, kept.value());
        const Status ran = plan.value().run_packed(args);
        ASSERT_TRUE(ran.ok()) << ran.message();
        EXPECT_EQ(o.data, whole);
        EXPECT_EQ(lse.data, whole_lse);
      }
    }
  }
}

/// How often a call went parallel, and with how many parts the last time.
struct Counted {
  std::int64_t calls = 0, parts = 0;

  ParallelFor parallel_for() {
    return {[](void* pool, std::int64_t count, void (*body)(void*, std::int64_t), void* context) {
              auto& counted = *static_cast<Counted*>(pool);
              ++counted.calls, counted.parts = count;
              for (std::int64_t i = count - 1; i >= 0; --i) body(context, i);
            },
            this};
  }
};

/// Heads that keep all threads busy are packed and attended one after the other, in each other's places: the
/// bits are those of halves, of which the first packs all heads.
TEST(Attend, HeadAfterHeadGivesTheBitsOfHalves) {
  // As many as are worth it whatever threads a caller has, but not more than fit a test.
  const std::int64_t heads = 8 * std::clamp<std::int64_t>(std::thread::hardware_concurrency(), 1, 16);
  const std::vector<std::int32_t> cu_q{0, 50, 66}, cu_k{0, 1000, 2048};
  for (const Scheme scheme : {Scheme::int8, Scheme::integer, Scheme::int8_full, Scheme::int8_lut}) {
    for (const std::int64_t sequences : {0, 2}) {
      SCOPED_TRACE(std::string(name_of(scheme)) + ", " + std::to_string(sequences) + " sequences");
      const std::int64_t tokens_k = sequences > 0 ? 2048 : 1000;
      const Tensor k = Tensor::normal({1, heads, tokens_k, 128}, 2),
                   v = Tensor::normal({1, heads, tokens_k, 160}, 3);
      Tensor q = Tensor::normal({1, 2 * heads, 66, 128}, 1), o({1, 2 * heads, 66, 160}, NAN);
      Result<AttentionDesc> desc = describe(scheme, q.view(), k.view(), v.view());
      ASSERT_TRUE(desc.ok()) << desc.status().message();
      desc.value().sequences = sequences, desc.value().key_block = 256;
      Result<AttentionPlan> plan = AttentionPlan::create(desc.value());
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      Result<Workspace> workspace = Workspace::allocate(plan.value().workspace_bytes());
      ASSERT_TRUE(workspace.ok());
      Counted counted;
      AttentionArgs args;
      args.q.codes = q.view(), args.k.codes = k.view(), args.v.codes = v.view(), args.o = o.view();
      if (sequences > 0) args.cu_seqlens_q = cu_q.data(), args.cu_seqlens_k = cu_k.data();
      args.workspace = workspace.value().data(), args.workspace_bytes = workspace.value().bytes();
      args.parallel_for = counted.parallel_for();
      const Status ran = plan.value().run(args);
      ASSERT_TRUE(ran.ok()) << ran.message();
      if (plan.value().backend() != std::string("reference") && std::thread::hardware_concurrency() <= 16) {
        EXPECT_EQ(counted.calls, 1);
        EXPECT_EQ(counted.parts, heads * std::max<std::int64_t>(sequences, 1));
      }
      const std::vector<float> whole = o.data;
      std::fill(o.data.begin(), o.data.end(), NAN);
      ASSERT_TRUE(plan.value().pack(args).ok());
      ASSERT_TRUE(plan.value().run_packed(args).ok());
      EXPECT_EQ(o.data, whole);

      q.data.back() = NAN;
      const Status refused = plan.value().run(args);
      EXPECT_EQ(refused.code(), Code::non_finite);
      EXPECT_NE(refused.message().find("head " + std::to_string(2 * heads - 1)), std::string::npos)
          << refused.message();
    }
  }
}

TEST(AttendPacked, OneScaleForAllOperandsIsRefused) {
  testing::Call call(OCTET_SCHEME_QATTN);
  ASSERT_EQ(call.plan_it(), OCTET_OK) << octet_last_error();
  EXPECT_EQ(octet_pack(call.plan, &call.args), OCTET_UNSUPPORTED);
  EXPECT_NE(std::string(octet_last_error()).find("qattn"), std::string::npos);
  EXPECT_EQ(octet_pack(nullptr, &call.args), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(octet_attend_packed(call.plan, nullptr), OCTET_INVALID_ARGUMENT);
}

TEST(ErrorBound, NoErrorExceedsIt) {
  testing::Call call(OCTET_SCHEME_INT8, 20, 70), exact(OCTET_SCHEME_EXACT, 20, 70);
  ASSERT_EQ(call.plan_it(), OCTET_OK) << octet_last_error();
  ASSERT_EQ(exact.plan_it(), OCTET_OK) << octet_last_error();
  Tensor bound(call.o.shape, -1);
  const octet_tensor out = abi::to_c(bound.view());
  ASSERT_EQ(octet_attend(call.plan, &call.args), OCTET_OK) << octet_last_error();
  ASSERT_EQ(octet_attend(exact.plan, &exact.args), OCTET_OK) << octet_last_error();
  call.args.o = call.args.lse = octet_tensor{};  // the bound needs neither
  ASSERT_EQ(octet_error_bound(call.plan, &call.args, &out), OCTET_OK) << octet_last_error();
  for (std::size_t i = 0; i < bound.data.size(); ++i)
    EXPECT_LE(std::fabs(call.o.data[i] - exact.o.data[i]), bound.data[i]) << "element " << i;
}

}  // namespace
}  // namespace octet
