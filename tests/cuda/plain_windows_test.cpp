// Windows that one launch takes from plain numbers to outputs: what the quantiser, packing and attention make
// of them by launches of their own. Both convert with the same bits; a multiplication and an addition may be
// one rounding in the one and two in the other, after which a code of P may fall on the other side of a tie.
// Skipped without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/schemes.h"
#include "numerics/formats.h"
#include "octet/octet.hpp"
#include "tests/attention/distributions.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

struct Windows {
  std::int64_t batch = 1, heads = 1, tokens_q = 1, tokens_k = 1;
};

struct Ask {
  std::string name = {};
  Windows of = {};
  Scheme scheme = Scheme::int8;
  DType dtype = DType::bf16;
  std::optional<Recipe> recipe = {};
  Mask mask = Mask::none;
  std::int64_t window_left = -1, window_right = -1;
  AttentionDesc::Bias bias = AttentionDesc::Bias::none;
  Layout layout = Layout::bhsd;
  bool has_bad_rows = false;
};

/// By one launch, or by those of the halves of a call.
enum class By { one_launch, halves };

class PlainWindows : public ::testing::Test {
 protected:
  static constexpr std::int64_t kDim = 32;

  void SetUp() override {
    if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// Numbers of 16 bits in device memory: heads with means and channels with sizes of their own, so that
  /// smoothing and equalising have something to do.
  TensorView numbers(const Ask& ask, std::int64_t tokens, std::uint64_t seed) {
    const std::array<std::int64_t, 4> shape{ask.of.batch, ask.of.heads, tokens, kDim};
    Random random(seed);
    std::vector<float> mean(kDim), size(kDim);
    for (float& x : mean) x = static_cast<float>(random.normal());
    for (float& x : size) x = std::exp(static_cast<float>(random.normal()));
    std::vector<std::uint16_t> all(static_cast<std::size_t>(shape[0] * shape[1] * tokens * kDim));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t c = i % kDim;
      float x = (static_cast<float>(random.normal()) + mean[c]) * size[c];
      if (ask.has_bad_rows && i % 2003 == 5)
        x = i % 2 == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
      all[i] = ask.dtype == DType::bf16 ? bf16_from_f32(x) : f16_from_f32(x);
    }
    void* data = device_.put(all.data(), static_cast<std::int64_t>(all.size()) * 2);
    TensorView x =
        ask.layout == Layout::bshd ? view_bshd(data, ask.dtype, shape) : view_bhsd(data, ask.dtype, shape);
    x.device = Device::cuda;
    return x;
  }
  /// [1, heads, tokens_q, tokens_k] of f32, or of visible keys.
  TensorView bias_of(const Ask& ask) {
    const std::array<std::int64_t, 4> shape{1, ask.of.heads, ask.of.tokens_q, ask.of.tokens_k};
    const auto count = static_cast<std::size_t>(shape[1] * shape[2] * shape[3]);
    Random random(17);
    TensorView x;
    if (ask.bias == AttentionDesc::Bias::additive) {
      std::vector<float> added(count);
      for (float& b : added) b = static_cast<float>(random.normal());
      x = view_bhsd(device_.put(added.data(), static_cast<std::int64_t>(count * sizeof(float))), DType::f32,
                    shape);
    } else {
      std::vector<std::uint8_t> visible(count);
      for (std::uint8_t& b : visible) b = random.normal() > -0.5 ? 1 : 0;
      x = view_bhsd(device_.put(visible.data(), static_cast<std::int64_t>(count)), DType::boolean, shape);
    }
    x.device = Device::cuda;
    return x;
  }

  struct Given {
    AttentionDesc desc;
    AttentionArgs args;
  };
  Given given(const Ask& ask) {
    Given g;
    g.args.q.codes = numbers(ask, ask.of.tokens_q, 1), g.args.k.codes = numbers(ask, ask.of.tokens_k, 2);
    g.args.v.codes = numbers(ask, ask.of.tokens_k, 3);
    g.desc = describe(ask.scheme, g.args.q.codes, g.args.k.codes, g.args.v.codes).take();
    if (ask.recipe) g.desc.recipe = *ask.recipe;
    g.desc.output = DType::f32;
    g.desc.mask = ask.mask, g.desc.bias = ask.bias;
    g.desc.window_left = ask.window_left, g.desc.window_right = ask.window_right;
    if (ask.bias != AttentionDesc::Bias::none) g.args.bias = bias_of(ask);
    return g;
  }

  struct Run {
    std::vector<float> o;
    bool leaves_workspace;  ///< as it was: no code and no scale went there
  };
  /// Outputs, [batch, heads, tokens, channels]; of a call that fails, none.
  Run run(const Ask& ask, const Given& given, By by) {
    DeviceMemory memory;
    const std::array<std::int64_t, 4> shape{ask.of.batch, ask.of.heads, ask.of.tokens_q, kDim};
    Run done{std::vector<float>(static_cast<std::size_t>(shape[0] * shape[1] * shape[2] * kDim)), false};
    const AttentionPlan plan = AttentionPlan::create(given.desc, "mma").take();
    AttentionArgs args = given.args;
    args.workspace_bytes = plan.workspace_bytes(), args.workspace = memory.take(args.workspace_bytes);
    const TensorView host = view_bhsd(done.o.data(), DType::f32, shape);
    args.o = memory.put(host);
    std::vector<std::uint8_t> workspace(static_cast<std::size_t>(args.workspace_bytes));
    TensorView bytes = view_bhsd(workspace.data(), DType::boolean, {1, 1, 1, args.workspace_bytes});
    TensorView there = bytes;
    there.data = args.workspace;
    Status status = memory.status;
    if (status.ok() && by == By::halves) status = plan.pack(args);
    if (status.ok()) status = by == By::halves ? plan.run_packed(args) : plan.run(args);
    EXPECT_TRUE(status.ok()) << ask.name << ": " << status.message();
    memory.get(args.o, host), memory.get(there, bytes);
    memory.look_at_margins();
    EXPECT_TRUE(memory.status.ok()) << ask.name << ": " << memory.status.message();
    done.leaves_workspace =
        std::all_of(workspace.begin(), workspace.end(), [](std::uint8_t b) { return b == kPoison; });
    return done;
  }

  /// One launch has the outputs of the halves: of elements one in fifty may be off by what two codes of P
  /// are, of 255 or 127 at most, the others by roundings.
  void expect_same(const Ask& ask) {
    const Given given = this->given(ask);
    const Run one = run(ask, given, By::one_launch), halves = run(ask, given, By::halves);
    EXPECT_TRUE(one.leaves_workspace) << ask.name << " did not go by one launch";
    EXPECT_FALSE(halves.leaves_workspace) << ask.name;
    float largest = 0;
    for (const float x : halves.o)
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    constexpr float kOfRoundings = 0x1p-18f, kOfCodes = 2.0f / 127;
    constexpr std::size_t kSeldom = 50;
    std::size_t off = 0;
    for (std::size_t i = 0; i < one.o.size(); ++i) {
      // Of V that is no code, so that NaN and Inf come through.
      if (one.o[i] == halves.o[i] || (std::isnan(one.o[i]) && std::isnan(halves.o[i]))) continue;
      const float error = std::abs(one.o[i] - halves.o[i]);
      ASSERT_LE(error, kOfCodes * largest)
          << ask.name << ", element " << i << ": " << one.o[i] << " and " << halves.o[i];
      if (error > kOfRoundings * largest) ++off;
    }
    EXPECT_LE(off * kSeldom, one.o.size()) << ask.name;
    RecordProperty(ask.name, std::to_string(off) + " of " + std::to_string(one.o.size()));
  }

  /// Scales of K's key blocks and of V's channels.
  static Recipe of_groups() {
    Recipe recipe = scheme_info(Scheme::int8).recipe;
    recipe.k = Granularity::block, recipe.v = Granularity::channel;
    return recipe;
  }
  static std::string title(const Ask& ask) {
    const Windows& of = ask.of;
    const auto text = [](std::int64_t x) { return std::to_string(x); };
    return std::string(name_of(ask.scheme)) + (ask.recipe ? " by groups" : "") +
           (ask.dtype == DType::bf16 ? ", bf16, " : ", f16, ") + text(of.batch) + " x " + text(of.heads) +
           " x " + text(of.tokens_q) + " against " + text(of.tokens_k);
  }
  /// body(ask) of each scheme, in the recipe with a kernel that takes windows, and each dtype.
  template <class Body>
  static void each_scheme(const Windows& of, const Body& body) {
    for (const DType dtype : {DType::bf16, DType::f16})
      for (Ask ask : {Ask{.scheme = Scheme::int8}, Ask{.scheme = Scheme::int8, .recipe = of_groups()},
                      Ask{.scheme = Scheme::int8_full}, Ask{.scheme = Scheme::int8_half}}) {
        ask.of = of, ask.dtype = dtype;
        ask.name = title(ask);
        body(ask);
      }
  }

 private:
  DeviceMemory device_;
};

TEST_F(PlainWindows, HaveTheOutputsOfTheHalves) {
  for (const Windows& of : {Windows{300, 3, 49, 49}, Windows{7, 2, 64, 64}, Windows{5, 4, 17, 17},
                            Windows{3, 2, 1, 1}, Windows{2, 2, 33, 60}, Windows{2, 3, 64, 5},
                            Windows{2, 3, 3, 64}, Windows{1, 2, 32, 32}, Windows{1, 1, 48, 63}})
    each_scheme(of, [&](const Ask& ask) { expect_same(ask); });
}

TEST_F(PlainWindows, HideKeysAndAddBiases) {
  for (const Windows& of : {Windows{11, 3, 49, 49}, Windows{2, 2, 20, 64}, Windows{2, 2, 64, 31}})
    each_scheme(of, [&](Ask ask) {
      const std::string name = ask.name;
      ask.name = name + ", causal", ask.mask = Mask::causal;
      expect_same(ask);
      ask.name = name + ", window", ask.mask = Mask::none, ask.window_left = 5, ask.window_right = 3;
      expect_same(ask);
      if (ask.recipe) return;  // by groups a call with a bias has no such kernel
      ask.name = name + ", bias", ask.window_left = ask.window_right = -1;
      ask.bias = AttentionDesc::Bias::additive;
      expect_same(ask);
      ask.name = name + ", mask", ask.bias = AttentionDesc::Bias::boolean;
      expect_same(ask);
    });
}

TEST_F(PlainWindows, MayLieTokensBeforeHeads) {
  each_scheme({9, 3, 49, 49}, [&](Ask ask) {
    ask.name += ", tokens before heads", ask.layout = Layout::bshd;
    expect_same(ask);
  });
}

TEST_F(PlainWindows, MakeZerosOfRowsThatAreNotFinite) {
  each_scheme({40, 3, 49, 49}, [&](Ask ask) {
    ask.name += ", NaN and Inf", ask.has_bad_rows = true;
    expect_same(ask);
  });
}

TEST_F(PlainWindows, GoByHalvesWhereThereIsNoKernel) {
  const auto expect_halves = [&](const Ask& ask) {
    EXPECT_FALSE(run(ask, given(ask), By::one_launch).leaves_workspace) << ask.name;
  };
  expect_halves({.name = "longer than a window", .of = {2, 2, 49, 65}});
  expect_halves({.name = "by groups, with a bias",
                 .of = {2, 2, 49, 49},
                 .recipe = of_groups(),
                 .bias = AttentionDesc::Bias::additive});
  expect_halves({.name = "another scheme", .of = {2, 2, 49, 49}, .scheme = Scheme::int8_lut});
  Ask ask{.name = "LSE, which gets back what K was shifted by", .of = {2, 2, 49, 49}};
  Given with_lse = given(ask);
  with_lse.desc.wants_lse = true;
  std::vector<float> lse(2 * 2 * 49);
  DeviceMemory memory;
  with_lse.args.lse = memory.put(view_bhsd(lse.data(), DType::f32, {2, 2, 49, 1}));
  EXPECT_FALSE(run(ask, with_lse, By::one_launch).leaves_workspace) << ask.name;
}

}  // namespace
}  // namespace octet::testing
