// The C interface's own promises: NULLs, struct sizes, enumerations, buffers, aliasing, error text, threads.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "tests/capi/support.h"
#include "tests/sentence.h"

namespace octet {
namespace {

using testing::Call;
using testing::Tensor;

/// The call failed with `code`, and its sentence begins "<argument> is " and has all four parts.
void expect_error(octet_status got, octet_status code, const std::string& argument) {
  const std::string text = octet_last_error();
  EXPECT_EQ(got, code) << text;
  EXPECT_EQ(text.rfind(argument + " is ", 0), 0u) << text << "\nshould begin with: " << argument << " is";
  EXPECT_TRUE(testing::is_sentence(text)) << text;
}

void expect_invalid(octet_status got, const std::string& argument) {
  expect_error(got, OCTET_INVALID_ARGUMENT, argument);
}

TEST(Contract, AValidCallSucceeds) {
  Call call;
  ASSERT_EQ(call.plan_it(), OCTET_OK) << octet_last_error();
  EXPECT_EQ(octet_attend(call.plan, &call.args), OCTET_OK) << octet_last_error();
}

TEST(Contract, NullArgumentsAreErrorsAndNotCrashes) {
  Call call;
  ASSERT_EQ(call.plan_it(), OCTET_OK);
  octet_plan* plan = nullptr;
  const octet_tensor q = abi::to_c(call.q.view());
  expect_invalid(octet_attend(nullptr, &call.args), "plan");
  expect_invalid(octet_attend(call.plan, nullptr), "args");
  expect_invalid(octet_plan_create(nullptr, &call.desc, ""), "plan");
  expect_invalid(octet_plan_create(&plan, nullptr, ""), "desc");
  expect_invalid(octet_attention_desc_init(nullptr, OCTET_SCHEME_INT8, &q, &q, &q), "desc");
  expect_invalid(octet_attention_desc_init(&call.desc, OCTET_SCHEME_INT8, nullptr, &q, &q), "q");
  expect_invalid(octet_plan_desc(nullptr, &call.desc), "plan");
  expect_invalid(octet_plan_desc(call.plan, nullptr), "desc");
  expect_invalid(octet_scheme_describe(OCTET_SCHEME_INT8, nullptr), "info");
  expect_invalid(octet_default_recipe(OCTET_SCHEME_INT8, nullptr), "recipe");
  expect_invalid(octet_enum_value(OCTET_ENUM_DTYPE, nullptr, nullptr), "name");
  expect_invalid(octet_enum_value(OCTET_ENUM_DTYPE, "f32", nullptr), "value");
  expect_invalid(octet_quantize(nullptr, nullptr, nullptr, nullptr, nullptr), "x");
  expect_invalid(octet_dequantize(nullptr, nullptr, nullptr, nullptr), "x");
  expect_invalid(octet_quantized_layout(nullptr, nullptr, 0, nullptr), "shape");
  expect_invalid(octet_merge_states(nullptr, &q, &q, &q, &q, &q), "o1");
  expect_invalid(octet_supported(nullptr, nullptr, nullptr, 0), "desc");
  expect_invalid(octet_error_bound(nullptr, &call.args, &q), "plan");
  expect_invalid(octet_error_bound(call.plan, nullptr, &q), "args");
  expect_invalid(octet_error_bound(call.plan, &call.args, nullptr), "bound");
  octet_plan_destroy(nullptr);
  EXPECT_EQ(octet_plan_workspace_bytes(nullptr), -1);
  EXPECT_EQ(octet_tensor_bytes(nullptr), -1);
  EXPECT_EQ(octet_plan_kernel(nullptr), nullptr);
  EXPECT_EQ(octet_plan_backend(nullptr), nullptr);
  EXPECT_EQ(octet_plan_explain(nullptr), nullptr);
  EXPECT_EQ(octet_plan_refusal_count(nullptr), 0);
  EXPECT_EQ(octet_plan_refusal_reason(nullptr, 0), nullptr);
  EXPECT_EQ(octet_plan_refusal_kernel(call.plan, 99), nullptr);
}

TEST(Contract, StructsOfAnotherSizeAreRefused) {
  for (std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{8}, ~std::uint64_t{0}}) {
    Call call;
    ASSERT_EQ(call.plan_it(), OCTET_OK);
    octet_plan* plan = nullptr;
    call.desc.struct_size = wrong;
    expect_invalid(octet_plan_create(&plan, &call.desc, ""), "desc->struct_size");
    EXPECT_EQ(plan, nullptr);
    call.args.struct_size = wrong;
    expect_invalid(octet_attend(call.plan, &call.args), "args->struct_size");
    octet_scheme_info info{};
    info.struct_size = wrong;
    expect_invalid(octet_scheme_describe(0, &info), "info->struct_size");
    octet_operand_recipe recipe{};
    recipe.struct_size = wrong;
    expect_invalid(octet_operand_recipe_of(call.plan, OCTET_Q, &recipe), "recipe->struct_size");
  }
}

TEST(Contract, NumbersOutsideAnEnumerationAreRefused) {
  Call call;
  ASSERT_EQ(call.plan_it(), OCTET_OK);
  const octet_tensor q = abi::to_c(call.q.view());
  octet_recipe recipe{};
  octet_scheme_info info{};
  info.struct_size = sizeof info;
  for (std::int32_t value : {-1, 20, INT32_MAX, INT32_MIN}) {
    expect_invalid(octet_default_recipe(value, &recipe), "scheme");
    expect_invalid(octet_scheme_describe(value, &info), "scheme");
    octet_attention_desc desc{};
    desc.struct_size = sizeof desc;
    expect_invalid(octet_attention_desc_init(&desc, value, &q, &q, &q), "scheme");
    EXPECT_EQ(octet_enum_name(value, 0), nullptr);
    EXPECT_EQ(octet_enum_count(value), 0);
    EXPECT_EQ(octet_enum_name(OCTET_ENUM_SCHEME, value), nullptr);
    EXPECT_EQ(octet_backend_name(value), nullptr);
    EXPECT_STREQ(octet_status_name(value), "unknown");
    octet_operand_recipe operand{};
    operand.struct_size = sizeof operand;
    expect_invalid(octet_operand_recipe_of(call.plan, value, &operand), "operand");
  }
  call.desc.wants_lse = 2;
  octet_plan* plan = nullptr;
  expect_invalid(octet_plan_create(&plan, &call.desc, ""), "wants_lse");
}

TEST(Contract, TensorsThatDoNotFitThePlanAreRefused) {
  const struct {
    std::string argument;
    void (*spoil)(Call&);
  } cases[] = {
      {"q.shape", [](Call& c) { c.args.q.codes.shape[2] = 6; }},
      {"k.shape", [](Call& c) { c.args.k.codes.shape[1] = -1; }},
      {"v.shape", [](Call& c) { c.args.v.codes.shape[3] = std::numeric_limits<std::int64_t>::max(); }},
      {"q.dtype", [](Call& c) { c.args.q.codes.dtype = OCTET_F16; }},
      {"k.dtype", [](Call& c) { c.args.k.codes.dtype = 77; }},
      {"q.device", [](Call& c) { c.args.q.codes.device = OCTET_CUDA; }},
      {"v.data", [](Call& c) { c.args.v.codes.data = nullptr; }},
      {"q.data", [](Call& c) { c.args.q.codes.data = reinterpret_cast<char*>(c.args.q.codes.data) + 1; }},
      {"k.stride", [](Call& c) { c.args.k.codes.stride[2] = std::numeric_limits<std::int64_t>::max() / 2; }},
      {"k.stride", [](Call& c) { c.args.k.codes.stride[0] = std::numeric_limits<std::int64_t>::min(); }},
      {"q.scales", [](Call& c) { c.args.q.scales = c.args.q.codes; }},
      {"k.mean", [](Call& c) { c.args.k.mean = c.args.k.codes; }},
      {"o.shape", [](Call& c) { c.args.o.shape[3] = 31; }},
      {"o.dtype", [](Call& c) { c.args.o.dtype = OCTET_BF16; }},
      {"o.device", [](Call& c) { c.args.o.device = OCTET_CUDA; }},
      {"o.data", [](Call& c) { c.args.o.data = nullptr; }},
      {"o.stride", [](Call& c) { c.args.o.stride[2] = 0; }},
      {"o.stride", [](Call& c) { c.args.o.stride[2] = 31; }},
      {"o.stride", [](Call& c) { c.args.o.stride[3] = -1; }},
      {"lse.data", [](Call& c) { c.args.lse.data = nullptr; }},
      {"lse.dtype", [](Call& c) { c.args.lse.dtype = OCTET_F64; }},
      {"o_scale", [](Call& c) { c.args.o_scale = c.args.lse; }},
      {"bias", [](Call& c) { c.args.bias = c.args.q.codes; }},
      {"k_anchor", [](Call& c) { c.args.k_anchor = c.args.q.codes; }},
      {"cu_seqlens_q", [](Call& c) { c.args.cu_seqlens_q = reinterpret_cast<const std::int32_t*>(&c); }},
      {"workspace", [](Call& c) { c.args.workspace = nullptr; }},
      {"workspace", [](Call& c) { c.args.workspace = static_cast<char*>(c.args.workspace) + 4; }},
      {"workspace_bytes", [](Call& c) { --c.args.workspace_bytes; }},
      {"workspace_bytes", [](Call& c) { c.args.workspace_bytes = -1; }},
      {"o", [](Call& c) { c.args.o.data = c.args.q.codes.data; }},
      {"o", [](Call& c) { c.args.o.data = c.args.workspace; }},
      {"lse", [](Call& c) { c.args.lse.data = c.args.v.codes.data; }},
      {"o", [](Call& c) { c.args.lse.data = c.args.o.data; }},
  };
  for (const auto& broken : cases) {
    Call call;
    ASSERT_EQ(call.plan_it(), OCTET_OK);
    broken.spoil(call);
    const std::vector<float> before = call.o.data;
    expect_invalid(octet_attend(call.plan, &call.args), broken.argument);
    EXPECT_EQ(std::memcmp(before.data(), call.o.data.data(), before.size() * sizeof(float)), 0)
        << broken.argument << ": a refused call wrote its output";
  }
}

TEST(Contract, BiasShapesBroadcastAxisByAxis) {
  Call call;
  call.desc.bias = OCTET_BIAS_ADDITIVE;
  ASSERT_EQ(call.plan_it(), OCTET_OK) << octet_last_error();
  for (int axes = 0; axes < 16; ++axes) {  // bit a: axis a is broadcast
    std::array<std::int64_t, 4> shape{2, 4, 7, 9};
    for (int a = 0; a < 4; ++a) {
      if (axes >> a & 1) shape[static_cast<std::size_t>(a)] = 1;
    }
    const Tensor bias(shape, 0.5f);
    call.args.bias = abi::to_c(bias.view());
    EXPECT_EQ(octet_attend(call.plan, &call.args), OCTET_OK) << octet_last_error();
    for (std::size_t a = 0; a < 4; ++a) {
      call.args.bias.shape[a] += 10;
      expect_invalid(octet_attend(call.plan, &call.args), "bias.shape");
      call.args.bias.shape[a] -= 10;
    }
  }
  call.args.bias.dtype = OCTET_BOOLEAN;
  expect_invalid(octet_attend(call.plan, &call.args), "bias.dtype");
}

TEST(Contract, PackedOffsetsAreChecked) {
  Call call;
  call.pack({0, 3, 3, 14}, {0, 9, 9, 18});
  ASSERT_EQ(call.plan_it(), OCTET_OK) << octet_last_error();
  EXPECT_EQ(octet_attend(call.plan, &call.args), OCTET_OK) << octet_last_error();
  const struct {
    std::array<std::int32_t, 4> offsets;
    const char* argument;
  } bad[] = {{{1, 3, 3, 14}, "cu_seqlens_q[0]"},  {{0, 3, 2, 14}, "cu_seqlens_q[2]"},
             {{0, 3, 15, 14}, "cu_seqlens_q[3]"}, {{0, -1, 3, 14}, "cu_seqlens_q[1]"},
             {{0, 3, 3, 13}, "cu_seqlens_q[3]"},  {{0, 3, 3, 15}, "cu_seqlens_q[3]"}};
  for (const auto& b : bad) {
    call.args.cu_seqlens_q = b.offsets.data();
    expect_invalid(octet_attend(call.plan, &call.args), b.argument);
  }
  call.args.cu_seqlens_q = nullptr;
  expect_invalid(octet_attend(call.plan, &call.args), "cu_seqlens_q");
}

TEST(Contract, EmptyProblemsGiveEmptyOutputsAndEmptyRows) {
  for (const octet_scheme scheme : {OCTET_SCHEME_EXACT, OCTET_SCHEME_F32, OCTET_SCHEME_INT8}) {
    Call no_keys(scheme, 5, 0);
    ASSERT_EQ(no_keys.plan_it(), OCTET_OK) << octet_last_error();
    ASSERT_EQ(octet_attend(no_keys.plan, &no_keys.args), OCTET_OK) << octet_last_error();
    for (float o : no_keys.o.data) EXPECT_EQ(o, 0.0f);
    for (float lse : no_keys.lse.data) EXPECT_EQ(lse, -std::numeric_limits<float>::infinity());
    Call no_queries(scheme, 0, 9);
    ASSERT_EQ(no_queries.plan_it(), OCTET_OK) << octet_last_error();
    EXPECT_EQ(octet_attend(no_queries.plan, &no_queries.args), OCTET_OK) << octet_last_error();
  }
}

TEST(Contract, NonFiniteInputsAreReportedByIntegerSchemes) {
  Call call;
  call.k.data[3] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_EQ(call.plan_it(), OCTET_OK);
  EXPECT_EQ(octet_attend(call.plan, &call.args), OCTET_NON_FINITE);
  EXPECT_NE(std::string(octet_last_error()).find("channel 3"), std::string::npos) << octet_last_error();
}

TEST(Contract, InputsAreNeverWritten) {
  Call call;
  const std::vector<float> q = call.q.data, k = call.k.data, v = call.v.data;
  ASSERT_EQ(call.plan_it(), OCTET_OK);
  ASSERT_EQ(octet_attend(call.plan, &call.args), OCTET_OK);
  EXPECT_EQ(q, call.q.data);
  EXPECT_EQ(k, call.k.data);
  EXPECT_EQ(v, call.v.data);
}

TEST(Contract, HugeClaimedSizesAreRefusedWithoutTouchingMemory) {
  Call call;
  octet_plan* plan = nullptr;
  call.desc.batch = 0x7fffffff, call.desc.heads_q = 65534;
  call.desc.tokens_q = 0x7fffffff;
  expect_invalid(octet_plan_create(&plan, &call.desc, nullptr), "q");
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe, recipe.format = OCTET_S8;
  octet_quantized_tensor layout{};
  const std::int64_t shape[4] = {0x7fffffff, 0x7fffffff, 0x7fffffff, 64};
  expect_invalid(octet_quantized_layout(shape, &recipe, 0, &layout), "shape");
}

TEST(Contract, TheErrorTextBelongsToItsThread) {
  octet_recipe recipe{};
  ASSERT_NE(octet_default_recipe(-7, &recipe), OCTET_OK);
  const std::string mine = octet_last_error();
  std::string before = "?", after;
  std::thread([&] {
    before = octet_last_error();
    (void)octet_default_recipe(-8, &recipe);
    after = octet_last_error();
  }).join();
  EXPECT_EQ(before, "");
  EXPECT_NE(after.find("-8"), std::string::npos);
  EXPECT_EQ(octet_last_error(), mine);
}

TEST(Contract, TheReasonIsCutToItsBuffer) {
  Call call;
  call.desc.head_dim = 999;
  char whole[512], cut[8];
  EXPECT_EQ(octet_supported(&call.desc, nullptr, whole, sizeof whole), OCTET_INVALID_ARGUMENT);
  EXPECT_STREQ(whole, octet_last_error());
  EXPECT_EQ(octet_supported(&call.desc, nullptr, cut, sizeof cut), OCTET_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(cut), std::string(whole).substr(0, 7));
  call.desc.head_dim = 64;
  EXPECT_EQ(octet_supported(&call.desc, "reference", whole, sizeof whole), OCTET_OK);
  EXPECT_STREQ(whole, "");
}

TEST(Contract, ThePlanGivesItsProblemBack) {
  Call call;
  ASSERT_EQ(call.plan_it(), OCTET_OK);
  octet_attention_desc back{};
  back.struct_size = sizeof back;
  ASSERT_EQ(octet_plan_desc(call.plan, &back), OCTET_OK);
  EXPECT_EQ(std::memcmp(&back, &call.desc, sizeof back), 0);
  const std::string backend = octet_plan_backend(call.plan);
  EXPECT_EQ(octet_plan_kernel(call.plan), backend + "/int8/d64/none");
  octet_plan* reference = nullptr;
  ASSERT_EQ(octet_plan_create(&reference, &call.desc, "reference"), OCTET_OK);
  EXPECT_STREQ(octet_plan_backend(reference), "reference");
  octet_plan_destroy(reference);
}

}  // namespace
}  // namespace octet
