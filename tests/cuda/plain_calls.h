// Calls that one launch takes from plain numbers to outputs, beside what the quantiser, packing and attention
// make of them by launches of their own. Both convert with the same bits; a multiplication and an addition
// may be one rounding in the one and two in the other, after which a code of P may fall on the other side of
// a tie.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
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

namespace octet::testing::plain_calls {

/// Of dense sequences.
struct Lengths {
  std::int64_t batch = 1, heads = 1, tokens_q = 1, tokens_k = 1;
};

struct Ask {
  std::string name = {};
  Lengths of = {};
  std::int64_t dim = 32;
  std::optional<std::int64_t> key_block = {};
  Scheme scheme = Scheme::int8;
  DType dtype = DType::bf16;
  std::optional<Recipe> recipe = {};
  Mask mask = Mask::none;
  std::int64_t window_left = -1, window_right = -1;
  AttentionDesc::Bias bias = AttentionDesc::Bias::none;
  Layout layout = Layout::bhsd;
  bool has_bad_rows = false;
  bool wants_lse = false;
  std::size_t seldom = 50;  ///< of elements one in so many may be off by what codes of P are
};

/// By one launch, or by those of the halves of a call.
enum class By { one_launch, halves };

class PlainCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// Numbers of 16 bits in device memory: heads with means and channels with sizes of their own, so that
  /// smoothing and equalising have something to do.
  TensorView numbers(const Ask& ask, std::int64_t tokens, std::uint64_t seed) {
    const std::array<std::int64_t, 4> shape{ask.of.batch, ask.of.heads, tokens, ask.dim};
    Random random(seed);
    std::vector<float> mean(static_cast<std::size_t>(ask.dim)), size(mean.size());
    for (float& x : mean) x = static_cast<float>(random.normal());
    for (float& x : size) x = std::exp(static_cast<float>(random.normal()));
    std::vector<std::uint16_t> all(static_cast<std::size_t>(shape[0] * shape[1] * tokens * ask.dim));
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t c = i % mean.size();
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
    if (ask.key_block) g.desc.key_block = *ask.key_block;
    g.desc.output = DType::f32;
    g.desc.wants_lse = ask.wants_lse;
    g.desc.mask = ask.mask, g.desc.bias = ask.bias;
    g.desc.window_left = ask.window_left, g.desc.window_right = ask.window_right;
    if (ask.bias != AttentionDesc::Bias::none) g.args.bias = bias_of(ask);
    return g;
  }

  struct Run {
    std::vector<float> o, lse;
    bool leaves_workspace;  ///< as it was: no code and no scale went there
  };
  /// Outputs, [batch, heads, tokens, channels]; of a call that fails, none.
  Run run(const Ask& ask, const Given& given, By by) {
    DeviceMemory memory;
    const std::array<std::int64_t, 4> shape{ask.of.batch, ask.of.heads, ask.of.tokens_q, ask.dim};
    const std::int64_t rows = shape[0] * shape[1] * shape[2];
    Run done{std::vector<float>(static_cast<std::size_t>(rows * ask.dim)),
             std::vector<float>(ask.wants_lse ? static_cast<std::size_t>(rows) : 0), false};
    const AttentionPlan plan = AttentionPlan::create(given.desc, "mma").take();
    AttentionArgs args = given.args;
    args.workspace_bytes = plan.workspace_bytes(), args.workspace = memory.take(args.workspace_bytes);
    const TensorView host = view_bhsd(done.o.data(), DType::f32, shape);
    args.o = memory.put(host);
    const TensorView host_lse = view_bhsd(done.lse.data(), DType::f32, {shape[0], shape[1], shape[2], 1});
    if (ask.wants_lse) args.lse = memory.put(host_lse);
    std::vector<std::uint8_t> workspace(static_cast<std::size_t>(args.workspace_bytes));
    TensorView bytes = view_bhsd(workspace.data(), DType::boolean, {1, 1, 1, args.workspace_bytes});
    TensorView there = bytes;
    there.data = args.workspace;
    Status status = memory.status;
    if (status.ok() && by == By::halves) status = plan.pack(args);
    if (status.ok()) status = by == By::halves ? plan.run_packed(args) : plan.run(args);
    EXPECT_TRUE(status.ok()) << ask.name << ": " << status.message();
    memory.get(args.o, host), memory.get(there, bytes);
    if (ask.wants_lse) memory.get(args.lse, host_lse);
    memory.look_at_margins();
    EXPECT_TRUE(memory.status.ok()) << ask.name << ": " << memory.status.message();
    done.leaves_workspace =
        std::all_of(workspace.begin(), workspace.end(), [](std::uint8_t b) { return b == kPoison; });
    return done;
  }

  /// One launch has the outputs of the halves: of elements as many as `seldom` says may be off by what two
  /// codes of P are, of 255 or 127 at most or an f16, the others by roundings.
  void expect_same(const Ask& ask) {
    const Given given = this->given(ask);
    const Run one = run(ask, given, By::one_launch), halves = run(ask, given, By::halves);
    EXPECT_TRUE(one.leaves_workspace) << ask.name << " did not go by one launch";
    EXPECT_FALSE(halves.leaves_workspace) << ask.name;
    float largest = 0;
    for (const float x : halves.o)
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    constexpr float kOfRoundings = 0x1p-18f;
    const float of_codes = ask.scheme == Scheme::int8_half ? 0x1p-10f : 2.0f / 127;  // P of it is f16
    std::size_t off = 0;
    for (std::size_t i = 0; i < one.o.size(); ++i) {
      // Of V that is no code, so that NaN and Inf come through.
      if (one.o[i] == halves.o[i] || (std::isnan(one.o[i]) && std::isnan(halves.o[i]))) continue;
      const float error = std::abs(one.o[i] - halves.o[i]);
      ASSERT_LE(error, of_codes * largest)
          << ask.name << ", element " << i << ": " << one.o[i] << " and " << halves.o[i];
      if (error > kOfRoundings * largest) ++off;
    }
    EXPECT_LE(off * ask.seldom, one.o.size()) << ask.name;
    for (std::size_t i = 0; i < one.lse.size(); ++i)
      EXPECT_NEAR(one.lse[i], halves.lse[i], kOfRoundings * std::max(1.0f, std::abs(halves.lse[i])))
          << ask.name << ", row " << i;
    RecordProperty(ask.name, std::to_string(off) + " of " + std::to_string(one.o.size()));
  }

  static std::string title(const Ask& ask) {
    const Lengths& of = ask.of;
    const auto text = [](std::int64_t x) { return std::to_string(x); };
    return std::string(name_of(ask.scheme)) + (ask.recipe ? " by groups" : "") +
           (ask.dtype == DType::bf16 ? ", bf16, " : ", f16, ") + text(of.batch) + " x " + text(of.heads) +
           " x " + text(of.tokens_q) + " against " + text(of.tokens_k) +
           (ask.key_block ? ", blocks of " + text(*ask.key_block) : "");
  }

 private:
  DeviceMemory device_;
};

}  // namespace octet::testing::plain_calls
