// The rules of every scheme: each broken rule gives its sentence, each limit itself is accepted.
#include <limits>

#include "tests/core/support.h"

namespace octet {
namespace {

using testing::expect_sentence;
using testing::valid;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// Sets one integer field to each bad value and expects the sentence; then to each good one.
void expect_limits(const std::string& argument, std::int64_t AttentionDesc::*field,
                   std::initializer_list<std::int64_t> bad, std::initializer_list<std::int64_t> good) {
  for (std::int64_t value : bad) {
    AttentionDesc d = valid(Scheme::int8);
    d.*field = value;
    expect_sentence(validate_desc(d), Code::invalid_argument, argument, std::to_string(value));
  }
  for (std::int64_t value : good) {
    AttentionDesc d = valid(Scheme::int8);
    d.*field = value;
    EXPECT_TRUE(validate_desc(d).ok()) << argument << " = " << value << ": " << validate_desc(d).message();
  }
}

TEST(ValidateDesc, EachShapeHasItsLimits) {
  using D = AttentionDesc;
  expect_limits("batch", &D::batch, {0, -1, kMost, INT64_MIN}, {1, 2, 100000});
  expect_limits("heads_q", &D::heads_q, {0, -1, 65536, kMost}, {2, 4, 65534});
  expect_limits("heads_kv", &D::heads_kv, {0, -1, 65536, kMost}, {1, 2, 4});
  expect_limits("heads_q", &D::heads_q, {3}, {});
  expect_limits("tokens_q", &D::tokens_q, {-1, kMost, INT64_MIN}, {0, 1, 0x7fffffff});
  expect_limits("tokens_k", &D::tokens_k, {-1, kMost, INT64_MIN}, {0, 1, 0x7fffffff});
  expect_limits("head_dim", &D::head_dim, {0, -1, 257, kMost}, {1, 3, 256});
  expect_limits("head_dim_v", &D::head_dim_v, {0, -1, 257, kMost}, {1, 3, 256});
  expect_limits("sequences", &D::sequences, {-1, kMost}, {0});
  expect_limits("window_left", &D::window_left, {-2, INT64_MIN, kMost}, {-1, 0, 5, 0x7fffffff});
  expect_limits("window_right", &D::window_right, {-2, INT64_MIN, kMost}, {-1, 0, 5, 0x7fffffff});
  expect_limits("key_block", &D::key_block, {0, -16, 8, 15, 17, 1040, kMost}, {16, 48, 1024});
}

TEST(ValidateDesc, SizesThatOverflowAreRefused) {
  AttentionDesc d = valid(Scheme::int8);
  d.batch = 0x7fffffff, d.heads_q = 65535, d.heads_kv = 1, d.tokens_q = 0x7fffffff;
  expect_sentence(validate_desc(d), Code::invalid_argument, "q", "[2147483647, 65535, 2147483647, ...]");
  d.tokens_q = 1, d.tokens_k = 0x7fffffff, d.heads_kv = 65535;
  expect_sentence(validate_desc(d), Code::invalid_argument, "k", "[2147483647, 65535, 2147483647, ...]");
}

TEST(ValidateDesc, SoftmaxScaleIsFiniteAndPositive) {
  const struct {
    float value;
    const char* text;
  } bad[] = {{0.0f, "0"},
             {-0.0f, "-0"},
             {-1e-9f, "-9.99999972e-10"},
             {std::numeric_limits<float>::infinity(), "inf"},
             {-std::numeric_limits<float>::infinity(), "-inf"},
             {std::numeric_limits<float>::quiet_NaN(), "nan"}};
  for (const auto& b : bad) {
    AttentionDesc d = valid(Scheme::int8);
    d.softmax_scale = b.value;
    expect_sentence(validate_desc(d), Code::invalid_argument, "softmax_scale", b.text);
  }
}

TEST(ValidateDesc, PackedSequencesWantOneBatchEntryAndNoBias) {
  AttentionDesc d = valid(Scheme::int8);
  d.sequences = 3;
  expect_sentence(validate_desc(d), Code::invalid_argument, "batch", "2");
  d.batch = 1;
  EXPECT_TRUE(validate_desc(d).ok());
  d.bias = AttentionDesc::Bias::boolean;
  expect_sentence(validate_desc(d), Code::unsupported, "bias", "boolean");
}

TEST(ValidateDesc, EnumerationsOutsideTheirRangeAreRefused) {
  const struct {
    const char* argument;
    void (*set)(AttentionDesc&, std::int32_t);
  } fields[] = {
      {"scheme", [](AttentionDesc& d, std::int32_t x) { d.scheme = static_cast<Scheme>(x); }},
      {"input", [](AttentionDesc& d, std::int32_t x) { d.input = static_cast<DType>(x); }},
      {"output", [](AttentionDesc& d, std::int32_t x) { d.output = static_cast<DType>(x); }},
      {"mask", [](AttentionDesc& d, std::int32_t x) { d.mask = static_cast<Mask>(x); }},
      {"bias", [](AttentionDesc& d, std::int32_t x) { d.bias = static_cast<AttentionDesc::Bias>(x); }},
      {"recipe.q", [](AttentionDesc& d, std::int32_t x) { d.recipe.q = static_cast<Granularity>(x); }},
      {"recipe.k", [](AttentionDesc& d, std::int32_t x) { d.recipe.k = static_cast<Granularity>(x); }},
      {"recipe.v", [](AttentionDesc& d, std::int32_t x) { d.recipe.v = static_cast<Granularity>(x); }},
      {"recipe.smooth", [](AttentionDesc& d, std::int32_t x) { d.recipe.smooth = static_cast<Smooth>(x); }},
      {"recipe.rotate", [](AttentionDesc& d, std::int32_t x) { d.recipe.rotate = static_cast<Rotate>(x); }},
      {"recipe.equalise",
       [](AttentionDesc& d, std::int32_t x) { d.recipe.equalise = static_cast<Equalise>(x); }},
      {"options.row_sum",
       [](AttentionDesc& d, std::int32_t x) { d.options.row_sum = static_cast<SchemeOptions::RowSum>(x); }},
      {"options.table",
       [](AttentionDesc& d, std::int32_t x) { d.options.table = static_cast<SchemeOptions::Table>(x); }},
      {"options.quotient",
       [](AttentionDesc& d, std::int32_t x) {
         d.options.quotient = static_cast<SchemeOptions::Quotient>(x);
       }},
      {"options.rescale",
       [](AttentionDesc& d, std::int32_t x) { d.options.rescale = static_cast<SchemeOptions::Rescale>(x); }},
  };
  for (const auto& field : fields) {
    for (std::int32_t value : {-1, 99, INT32_MAX, INT32_MIN}) {
      AttentionDesc d = valid(Scheme::int8);
      field.set(d, value);
      expect_sentence(validate_desc(d), Code::invalid_argument, field.argument, std::to_string(value));
    }
  }
}

TEST(ValidateDesc, TableBitsHaveLimitsWhereThereIsATable) {
  for (int bits : {2, 17, -1}) {
    AttentionDesc d = valid(Scheme::int8_lut);
    d.options.table_bits = bits;
    expect_sentence(validate_desc(d), Code::invalid_argument, "options.table_bits", std::to_string(bits));
  }
}

TEST(Names, GoBothWays) {
  for (int kind = 0; kind <= static_cast<int>(EnumKind::scale_rule); ++kind) {
    const auto k = static_cast<EnumKind>(kind);
    ASSERT_FALSE(names_of(k).empty()) << kind;
    for (std::size_t i = 0; i < names_of(k).size(); ++i) {
      const Result<std::int32_t> value = value_of(k, names_of(k)[i]);
      ASSERT_TRUE(value.ok());
      EXPECT_EQ(value.value(), static_cast<std::int32_t>(i)) << argument_of(k);
    }
    expect_sentence(value_of(k, "nonsense").status(), Code::invalid_argument, std::string(argument_of(k)),
                    "\"nonsense\"");
  }
  EXPECT_TRUE(names_of(static_cast<EnumKind>(99)).empty());
}

}  // namespace
}  // namespace octet
