// Constants of keys that the quantiser writes beside the scales they follow from: the bits of those that
// packing makes, behind the last key too; and which calls have them made so. Skipped without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "capi/operands.h"
#include "capi/placed.h"
#include "capi/plan_handle.h"
#include "capi/prepass_cuda.h"
#include "core/schemes.h"
#include "cuda/cuda.h"
#include "numerics/formats.h"
#include "octet/octet.hpp"
#include "tests/attention/distributions.h"
#include "tests/cuda/device_memory.h"
#include "tests/cuda/on_device.h"

namespace octet::testing {
namespace {

struct Wanted {
  std::string name = {};
  Scheme scheme = Scheme::int8;
  std::int64_t batch = 1, heads_q = 1, heads = 1, tokens = 1, dim = 64;
  DType dtype = DType::bf16;
  std::int64_t key_block = 128;
  std::function<void(Recipe&)> change = [](Recipe&) {};
  bool has_bad_rows = false;
};

class PackedConstants : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  }

  TensorView numbers(DeviceMemory& memory, const Wanted& ask, std::int64_t heads, std::uint64_t seed) {
    const std::array<std::int64_t, 4> shape{ask.batch, heads, ask.tokens, ask.dim};
    Random random(seed);
    std::vector<std::uint16_t> all(static_cast<std::size_t>(shape[0] * heads * ask.tokens * ask.dim));
    for (std::size_t i = 0; i < all.size(); ++i) {
      // Tokens of many sizes, of which some are zeros, so that floors and their logarithms have something to
      // do.
      const auto token = i / static_cast<std::size_t>(ask.dim) % static_cast<std::size_t>(ask.tokens);
      float x = static_cast<float>(random.normal()) * std::exp2(static_cast<float>(token % 13) - 9);
      if (token % 17 == 3) x = 0;
      if (ask.has_bad_rows && i % 4001 == 7) x = std::numeric_limits<float>::quiet_NaN();
      all[i] = ask.dtype == DType::bf16 ? bf16_from_f32(x) : f16_from_f32(x);
    }
    TensorView x =
        view_bhsd(memory.put(all.data(), static_cast<std::int64_t>(all.size()) * 2), ask.dtype, shape);
    x.device = Device::cuda;
    return x;
  }

  struct Made {
    bool by_quantiser = false;
    std::vector<float> beside_scales, by_packing;
  };
  /// All constants of a call's keys, made either way.
  Made made(const Wanted& ask) {
    DeviceMemory memory;
    AttentionArgs args;
    args.q.codes = numbers(memory, ask, ask.heads_q, 1);
    args.k.codes = numbers(memory, ask, ask.heads, 2), args.v.codes = numbers(memory, ask, ask.heads, 3);
    AttentionDesc desc = describe(ask.scheme, args.q.codes, args.k.codes, args.v.codes).take();
    desc.key_block = ask.key_block;
    ask.change(desc.recipe);
    const AttentionPlan handle = AttentionPlan::create(desc, "mma").take();
    const Plan& plan = handle.handle()->plan;
    args.workspace_bytes = handle.workspace_bytes(), args.workspace = memory.take(args.workspace_bytes);
    EXPECT_TRUE(memory.status.ok()) << memory.status.message();
    auto* const own = static_cast<std::byte*>(args.workspace) + plan.kernel_offset;
    const cuda::PackedConstants to = cuda::packed_constants(plan.desc, own).k;

    Made both;
    AttentionArgs ready =
        capi::prepare_on_device(plan, handle.handle()->call, args, capi::Operands::keys).take();
    both.by_quantiser = to.data && ready.k.scales.data == to.data;
    if (!both.by_quantiser) return both;
    const std::int64_t of_block =
        to.of == cuda::PackedConstants::Of::blocks ? 1 : std::int64_t{to.words} * cuda::PackedValues::kPlaces;
    const std::int64_t count = ask.heads * to.blocks_per_head * of_block;
    const auto read = [&](std::vector<float>& into) {
      into.resize(static_cast<std::size_t>(count));
      EXPECT_EQ(cudaMemcpy(into.data(), to.data, into.size() * sizeof(float), cudaMemcpyDeviceToHost),
                cudaSuccess);
    };
    read(both.beside_scales);
    EXPECT_EQ(cudaMemset(to.data, kPoison, static_cast<std::size_t>(count) * sizeof(float)), cudaSuccess);
    ready.k.scales = capi::placed(plan.k.layout, args.workspace).scales;
    ready.workspace = own;
    const Status packed = cuda::pack(plan.desc, ready);
    EXPECT_TRUE(packed.ok()) << packed.message();
    read(both.by_packing);
    memory.look_at_margins();
    EXPECT_TRUE(memory.status.ok()) << ask.name << ": " << memory.status.message();
    return both;
  }
  void expect_same(const Wanted& ask) {
    const Made both = made(ask);
    ASSERT_TRUE(both.by_quantiser) << ask.name;
    ASSERT_EQ(both.beside_scales.size(), both.by_packing.size()) << ask.name;
    for (std::size_t i = 0; i < both.by_packing.size(); ++i)
      ASSERT_EQ(bits_of(both.beside_scales[i]), bits_of(both.by_packing[i]))
          << ask.name << ", word " << i << ": " << both.beside_scales[i] << " and " << both.by_packing[i];
  }

  static Wanted of(const char* name, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                   std::int64_t dim) {
    Wanted ask;
    ask.name = std::string(name) + ", " + std::to_string(batch) + " x " + std::to_string(heads) + " x " +
               std::to_string(tokens) + " x " + std::to_string(dim);
    ask.batch = batch, ask.heads = ask.heads_q = heads, ask.tokens = tokens, ask.dim = dim;
    return ask;
  }
};

TEST_F(PackedConstants, HaveTheBitsThatPackingGivesThem) {
  struct Kind {
    const char* name;
    Scheme scheme;
    std::function<void(Recipe&)> change;
  };
  const Kind kinds[] = {{"int8", Scheme::int8, [](Recipe&) {}},
                        {"int8 by groups", Scheme::int8,
                         [](Recipe& r) { r.k = Granularity::block, r.v = Granularity::channel; }},
                        {"int8, V by channel", Scheme::int8, [](Recipe& r) { r.v = Granularity::channel; }},
                        {"int8_shift", Scheme::int8_shift, [](Recipe& r) { r.k = Granularity::token; }},
                        {"int8_full", Scheme::int8_full, [](Recipe&) {}},
                        {"int8_lut", Scheme::int8_lut, [](Recipe&) {}}};
  for (const Kind& kind : kinds)
    for (const DType dtype : {DType::bf16, DType::f16})
      // Many heads, for few of them are made by kernels that write no constants.
      for (Wanted ask :
           {of(kind.name, 8, 40, 197, 64), of(kind.name, 8, 40, 128, 64), of(kind.name, 8, 40, 129, 64),
            of(kind.name, 8, 40, 255, 64), of(kind.name, 8, 40, 65, 128), of(kind.name, 8, 40, 130, 128),
            of(kind.name, 1, 3, 1024, 64), of(kind.name, 2, 2, 3001, 64), of(kind.name, 1, 4, 1300, 128)}) {
        ask.scheme = kind.scheme, ask.change = kind.change, ask.dtype = dtype;
        expect_same(ask);
      }
}

TEST_F(PackedConstants, OfKeyBlocksThatAreNoLeaves) {
  // Sequences of which a block of threads has all rows, for blocks that end within leaves have them so alone:
  // many of them, and few where scales have floors or groups of a key block's tokens.
  for (const std::int64_t key_block : {112, 96, 80}) {
    for (const int batch : {1, 8}) {
      Wanted ask = of("int8", batch, 40, 197, 64);
      ask.key_block = key_block, ask.name += " in blocks of " + std::to_string(key_block);
      expect_same(ask);
      ask.change = [](Recipe& r) { r.k = Granularity::block, r.v = Granularity::channel; };
      ask.name += ", by groups";
      expect_same(ask);
    }
  }
}

TEST_F(PackedConstants, OfKeysThatQueryHeadsShare) {
  Wanted ask = of("int8, 12 query heads", 3, 4, 577, 64);
  ask.heads_q = 12;
  expect_same(ask);
}

TEST_F(PackedConstants, OfRowsWithNaN) {
  Wanted ask = of("int8, NaN", 8, 40, 197, 64);
  ask.has_bad_rows = true;
  expect_same(ask);
}

TEST_F(PackedConstants, ArePackingsWhereScalesAreNotTheirOwn) {
  const auto expect_none = [&](Wanted ask, const char* why) {
    EXPECT_FALSE(made(ask).by_quantiser) << ask.name << ": " << why;
  };
  Wanted ask = of("integer", 8, 40, 197, 64);
  ask.scheme = Scheme::integer;
  expect_none(ask, "a key's constants need its block's largest");
  ask = of("int8_full in blocks of 112", 1, 3, 577, 64);
  ask.scheme = Scheme::int8_full, ask.key_block = 112;
  expect_none(ask, "blocks of threads have parts that end within key blocks");
  ask = of("int8, K by block", 8, 40, 197, 64);
  ask.change = [](Recipe& r) { r.k = Granularity::block; };
  expect_none(ask, "a key's constant is its block's scale");
  for (const std::int64_t tokens : {100, 197}) {
    ask = of("int8, V by block", 8, 40, tokens, 64);
    ask.change = [](Recipe& r) { r.v = Granularity::block; };
    expect_none(ask, "P carries scales of blocks");
  }
  ask = of("int8_half", 8, 40, 197, 64);
  ask.scheme = Scheme::int8_half;
  expect_none(ask, "V is packed from 16 bits");
}

}  // namespace
}  // namespace octet::testing
