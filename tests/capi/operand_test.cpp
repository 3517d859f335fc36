// One operand through the C interface, quantised operands as inputs, and merged states.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "tests/capi/support.h"

namespace octet {
namespace {

using testing::Call;
using testing::Codes;
using testing::Tensor;

/// What a plan is made with beside the scheme.
struct Choice {
  std::int64_t key_block = 128;
  std::optional<octet_granularity> k;
};

void expect_same_bits(octet_scheme scheme, std::int64_t tokens_k, const Choice* choice = nullptr) {
  octet_scheme_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(octet_scheme_describe(scheme, &info), OCTET_OK);
  Call plain(scheme, 7, tokens_k), coded(scheme, 7, tokens_k);
  if (info.q_granularities == 0 || scheme == OCTET_SCHEME_QATTN) return;  // qattn's amax is of all three
  SCOPED_TRACE(std::string(info.name) + ", " + std::to_string(tokens_k) + " keys");
  for (Call* call : {&plain, &coded}) {
    if (!choice) continue;
    call->desc.key_block = choice->key_block;
    call->desc.recipe.k = choice->k.value_or(call->desc.recipe.k);
  }
  ASSERT_EQ(plain.plan_it(), OCTET_OK) << octet_last_error();
  plain.desc.wants_lse = 0;
  coded.desc.input = info.qk;
  ASSERT_EQ(coded.plan_it(), OCTET_OK) << octet_last_error();
  const Codes q(coded.plan, OCTET_Q, plain.q), k(coded.plan, OCTET_K, plain.k),
      v(coded.plan, OCTET_V, plain.v);
  coded.args.q = q.tensor, coded.args.k = k.tensor, coded.args.v = v.tensor;
  ASSERT_EQ(octet_attend(plain.plan, &plain.args), OCTET_OK) << octet_last_error();
  ASSERT_EQ(octet_attend(coded.plan, &coded.args), OCTET_OK) << octet_last_error();
  EXPECT_EQ(plain.o.data, coded.o.data);
}

TEST(Operand, QuantisedInputsGiveTheBitsOfPlainOnes) {
  for (octet_scheme scheme = 0; scheme < octet_scheme_count(); ++scheme)
    for (const std::int64_t tokens_k : {1, 65, 150}) expect_same_bits(scheme, tokens_k);
}

TEST(Operand, KeyBlocksOfAnySizeGiveTheSameBits) {
  for (const octet_scheme scheme : {OCTET_SCHEME_INT8, OCTET_SCHEME_INTEGER, OCTET_SCHEME_INT8_FULL})
    for (const std::int64_t key_block : {16, 48, 64, 112, 512}) {
      SCOPED_TRACE("key block " + std::to_string(key_block));
      for (const std::int64_t tokens_k : {15, 16, 203}) {
        Choice choice{key_block, {}};
        expect_same_bits(scheme, tokens_k, &choice);
        choice.k = OCTET_PER_BLOCK;
        if (scheme == OCTET_SCHEME_INT8) expect_same_bits(scheme, tokens_k, &choice);
      }
    }
}

/// Heads of any dim, whose rows lie apart, in sequences that start anywhere: each has the bits that it has
/// alone.
TEST(Operand, SequencesGiveTheBitsThatTheyGiveAlone) {
  const std::vector<std::int32_t> offsets{0, 37, 38, 38, 102, 203};
  const std::int64_t tokens = offsets.back(), heads = 2;
  for (const std::int64_t dim : {16, 20, 64, 96})
    for (const Scheme scheme : {Scheme::int8, Scheme::integer, Scheme::int8_half}) {
      SCOPED_TRACE(std::string(name_of(scheme)) + ", dim " + std::to_string(dim));
      const Tensor q = Tensor::normal({1, heads, tokens, dim}, 1), k = Tensor::normal(q.shape, 2),
                   v = Tensor::normal(q.shape, 3);
      Tensor together(q.shape), alone(q.shape);
      const auto run = [&](const auto& view, std::int64_t count, const Tensor& o) {
        Result<AttentionDesc> desc = describe(scheme, view(q), view(k), view(v));
        ASSERT_TRUE(desc.ok()) << desc.status().message();
        AttentionArgs args;
        args.q.codes = view(q), args.k.codes = view(k), args.v.codes = view(v), args.o = view(o);
        if (count > 0) {
          desc.value().sequences = count;
          args.cu_seqlens_q = args.cu_seqlens_k = offsets.data();
        }
        Result<AttentionPlan> plan = AttentionPlan::create(desc.value(), "");
        ASSERT_TRUE(plan.ok()) << plan.status().message();
        Result<Workspace> memory = Workspace::allocate(plan.value().workspace_bytes());
        ASSERT_TRUE(memory.ok());
        args.workspace = memory.value().data(), args.workspace_bytes = memory.value().bytes();
        const Status ran = plan.value().run(args);
        ASSERT_TRUE(ran.ok()) << ran.message();
      };
      run([](const Tensor& x) { return x.view(); }, static_cast<std::int64_t>(offsets.size()) - 1, together);
      for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
        const std::int64_t begin = offsets[s], length = offsets[s + 1] - begin;
        if (length == 0) continue;
        const auto part = [&](const Tensor& x) {
          TensorView view = x.view();
          view.data = static_cast<float*>(view.data) + begin * dim;
          view.shape[2] = length;
          return view;
        };
        run(part, 0, alone);
      }
      EXPECT_EQ(together.data, alone.data);
    }
}

TEST(Operand, HeadsTooLongForTheCacheGiveTheSameBits) {
  for (const octet_scheme scheme : {OCTET_SCHEME_INT8, OCTET_SCHEME_INTEGER}) expect_same_bits(scheme, 6000);
}

TEST(Operand, CodesOfAnotherRecipeAreRefused) {
  Call call;
  call.desc.input = OCTET_S8;
  ASSERT_EQ(call.plan_it(), OCTET_OK) << octet_last_error();
  const Codes q(call.plan, OCTET_Q, call.q), k(call.plan, OCTET_K, call.k), v(call.plan, OCTET_V, call.v);
  const auto refuses = [&](const char* argument) {
    EXPECT_EQ(octet_attend(call.plan, &call.args), OCTET_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(octet_last_error()).rfind(argument, 0), 0u) << octet_last_error();
    call.args.q = q.tensor, call.args.k = k.tensor, call.args.v = v.tensor;
  };
  call.args.q = q.tensor, call.args.k = k.tensor, call.args.v = v.tensor;
  ASSERT_EQ(octet_attend(call.plan, &call.args), OCTET_OK) << octet_last_error();
  call.args.q.tokens_per_scale = 0;
  refuses("q.tokens_per_scale");
  call.args.q.rotation_seed ^= 1;
  refuses("q.rotate");
  call.args.k.mean.data = nullptr;
  refuses("k.mean");
  call.args.v.channel_exponent.data = nullptr;
  refuses("v.channel_exponent");
  call.args.k.scales.shape[2] += 1;
  refuses("k.scales");
  call.args.v.codes.dtype = OCTET_U8;
  refuses("v.codes.dtype");
}

TEST(Operand, DequantisedValuesAreNearTheInput) {
  Call call;
  ASSERT_EQ(call.plan_it(), OCTET_OK);
  for (const octet_operand which : {OCTET_Q, OCTET_K, OCTET_V}) {
    const Tensor& x = which == OCTET_Q ? call.q : which == OCTET_K ? call.k : call.v;
    const Codes codes(call.plan, which, x);
    Tensor back(x.shape);
    const octet_tensor out = abi::to_c(back.view());
    ASSERT_EQ(octet_dequantize(&codes.tensor, nullptr, &out, nullptr), OCTET_OK) << octet_last_error();
    double noise = 0, signal = 0;
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      noise += std::pow(double{back.data[i]} - x.data[i], 2);
      signal += std::pow(double{x.data[i]}, 2);
    }
    EXPECT_LT(std::sqrt(noise / signal), 0.01) << "operand " << which;
    EXPECT_GT(noise, 0) << "operand " << which;
  }
}

TEST(Operand, PlainNumbersWithScalesOrGroupsAreRefused) {
  Tensor x({1, 2, 3, 8}), back(x.shape);
  const octet_tensor out = abi::to_c(back.view());
  const std::int32_t cu_seqlens[] = {0, 1, 3};
  const octet_packing packing{2, cu_seqlens};
  const auto expect = [&](const octet_quantized_tensor& codes, octet_status status, const char* argument) {
    EXPECT_EQ(octet_dequantize(&codes, &packing, &out, nullptr), status);
    if (status == OCTET_OK) return;
    EXPECT_NE(std::string(octet_last_error()).find(argument), std::string::npos) << octet_last_error();
  };
  octet_quantized_tensor plain{};
  plain.codes = abi::to_c(x.view());
  expect(plain, OCTET_OK, "");
  EXPECT_EQ(back.data, x.data);
  for (const std::int64_t group : {INT64_MIN, std::int64_t{-1}, INT64_MAX}) {
    octet_quantized_tensor wrong = plain;
    wrong.tokens_per_scale = group;
    expect(wrong, OCTET_INVALID_ARGUMENT, "x->tokens_per_scale");
    wrong = plain;
    wrong.channels_per_scale = group;
    expect(wrong, OCTET_INVALID_ARGUMENT, "channels_per_scale");
  }
  octet_quantized_tensor scaled = plain;
  float scale = 1;
  scaled.scales.data = &scale;
  expect(scaled, OCTET_INVALID_ARGUMENT, "x->scales.data");
}

TEST(Operand, TensorBytesCountsTheLastElement) {
  octet_tensor x = abi::to_c(view_bhsd(nullptr, DType::f16, {2, 3, 5, 7}));
  EXPECT_EQ(octet_tensor_bytes(&x), 2 * 3 * 5 * 7 * 2);
  x.shape[1] = 0;
  EXPECT_EQ(octet_tensor_bytes(&x), 0);
  x = abi::to_c(view_bhsd(nullptr, DType::s4, {1, 1, 3, 8}));
  EXPECT_EQ(octet_tensor_bytes(&x), 12);
  x.shape[2] = -1;
  EXPECT_EQ(octet_tensor_bytes(&x), -1);
}

TEST(MergeStates, HalvesOfTheKeysGiveTheWhole) {
  Call whole(OCTET_SCHEME_F32, 7, 20), first(OCTET_SCHEME_F32, 7, 8), second(OCTET_SCHEME_F32, 7, 12);
  for (Call* c : {&whole, &first, &second}) ASSERT_EQ(c->plan_it(), OCTET_OK) << octet_last_error();
  for (Call* part : {&first, &second}) {
    part->args.q = whole.args.q;
    for (int a = 0; a < 4; ++a) {  // views of the whole's keys: their strides stay
      part->args.k.codes.stride[a] = whole.args.k.codes.stride[a];
      part->args.v.codes.stride[a] = whole.args.v.codes.stride[a];
    }
  }
  first.args.k.codes.data = whole.k.data.data();
  first.args.v.codes.data = whole.v.data.data();
  second.args.k.codes.data = whole.k.data.data() + 8 * whole.args.k.codes.stride[2];
  second.args.v.codes.data = whole.v.data.data() + 8 * whole.args.v.codes.stride[2];
  for (Call* c : {&whole, &first, &second}) ASSERT_EQ(octet_attend(c->plan, &c->args), OCTET_OK);
  ASSERT_EQ(octet_merge_states(&first.args.o, &first.args.lse, &second.args.o, &second.args.lse,
                               &first.args.o, &first.args.lse),
            OCTET_OK)
      << octet_last_error();
  for (std::size_t i = 0; i < whole.o.data.size(); ++i)
    EXPECT_NEAR(first.o.data[i], whole.o.data[i], 2e-6) << i;
  for (std::size_t i = 0; i < whole.lse.data.size(); ++i)
    EXPECT_NEAR(first.lse.data[i], whole.lse.data[i], 2e-6) << i;
}

TEST(MergeStates, AnEmptyStateIsTheIdentity) {
  const float kEmpty = -std::numeric_limits<float>::infinity();
  const Tensor o1 = Tensor::normal({1, 1, 3, 4}, 1), lse1 = Tensor::normal({1, 1, 3, 1}, 2);
  const Tensor nothing({1, 1, 3, 4}, std::numeric_limits<float>::quiet_NaN()), none({1, 1, 3, 1}, kEmpty);
  Tensor o({1, 1, 3, 4}, 7), lse({1, 1, 3, 1}, 7);
  const auto merge = [&](const Tensor& a, const Tensor& la, const Tensor& b, const Tensor& lb) {
    const octet_tensor x[] = {abi::to_c(a.view()),  abi::to_c(la.view()), abi::to_c(b.view()),
                              abi::to_c(lb.view()), abi::to_c(o.view()),  abi::to_c(lse.view())};
    EXPECT_EQ(octet_merge_states(&x[0], &x[1], &x[2], &x[3], &x[4], &x[5]), OCTET_OK) << octet_last_error();
  };
  merge(o1, lse1, nothing, none);
  EXPECT_EQ(o.data, o1.data);
  EXPECT_EQ(lse.data, lse1.data);
  merge(nothing, none, o1, lse1);
  EXPECT_EQ(o.data, o1.data);
  EXPECT_EQ(lse.data, lse1.data);
  merge(nothing, none, nothing, none);
  for (float x : o.data) EXPECT_EQ(x, 0.0f);
  for (float x : lse.data) EXPECT_EQ(x, kEmpty);
}

}  // namespace
}  // namespace octet
