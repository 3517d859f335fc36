// Every cell of the support matrix: what a scheme has is accepted, everything else is refused by name.
#include "tests/core/support.h"

namespace octet {
namespace {

using testing::expect_sentence;
using testing::valid;

/// One thing that a scheme may or may not offer, asked of every scheme.
template <class Change>
void for_every_scheme(Change&& change) {
  for (const SchemeInfo& info : all_schemes()) {
    SCOPED_TRACE("scheme " + std::string(info.name));
    change(info, valid(info.scheme));
  }
}

void expect_cell(const AttentionDesc& desc, bool offered, const std::string& argument,
                 const std::string& value) {
  const Status status = validate_desc(desc);
  if (offered) {
    EXPECT_TRUE(status.ok()) << argument << " = " << value << ": " << status.message();
  } else {
    expect_sentence(status, Code::unsupported, argument, value);
  }
}

TEST(SupportMatrix, EveryDefaultIsAccepted) {
  for_every_scheme([](const SchemeInfo&, const AttentionDesc& d) {
    EXPECT_TRUE(validate_desc(d).ok()) << validate_desc(d).message();
  });
}

TEST(SupportMatrix, EveryGranularityIsAcceptedOrRefusedByName) {
  const struct {
    std::string argument;
    Granularity Recipe::*field;
    GranularitySet SchemeInfo::*set;
  } operands[] = {{"recipe.q", &Recipe::q, &SchemeInfo::q_set},
                  {"recipe.k", &Recipe::k, &SchemeInfo::k_set},
                  {"recipe.v", &Recipe::v, &SchemeInfo::v_set}};
  for_every_scheme([&](const SchemeInfo& info, AttentionDesc d) {
    for (const auto& operand : operands) {
      for (int g = 0; g < static_cast<int>(names_of(EnumKind::granularity).size()); ++g) {
        AttentionDesc changed = d;
        const auto wanted = static_cast<Granularity>(g);
        changed.recipe.*operand.field = wanted;
        const bool neutral = info.*operand.set == 0 && wanted == info.recipe.*operand.field;
        expect_cell(changed, neutral || contains(info.*operand.set, wanted), operand.argument,
                    name_of(wanted));
      }
    }
  });
}

TEST(SupportMatrix, EverySmoothingRotationAndEqualisationIsAcceptedOrRefusedByName) {
  for_every_scheme([](const SchemeInfo& info, AttentionDesc d) {
    for (Smooth smooth : {Smooth::none, Smooth::mean, Smooth::anchor}) {
      AttentionDesc changed = d;
      changed.recipe.smooth = smooth;
      expect_cell(changed, info.smooths || smooth == Smooth::none, "recipe.smooth", name_of(smooth));
    }
    for (Rotate rotate : {Rotate::off, Rotate::on}) {
      AttentionDesc changed = d;
      changed.recipe.rotate = rotate;
      expect_cell(changed, info.rotates || rotate == Rotate::off, "recipe.rotate", name_of(rotate));
    }
    for (Equalise equalise : {Equalise::off, Equalise::on}) {
      AttentionDesc changed = d;
      changed.recipe.equalise = equalise;
      expect_cell(changed, info.equalises || equalise == Equalise::off, "recipe.equalise", name_of(equalise));
    }
  });
}

TEST(SupportMatrix, EveryBiasIsAcceptedOrRefusedByName) {
  using Bias = AttentionDesc::Bias;
  for_every_scheme([](const SchemeInfo& info, AttentionDesc d) {
    for (Bias bias : {Bias::none, Bias::boolean, Bias::additive}) {
      d.bias = bias;
      expect_cell(d, info.additive_bias || bias != Bias::additive, "bias", name_of(bias));
    }
  });
}

TEST(SupportMatrix, EveryOptionIsAcceptedOrRefusedByName) {
  using O = SchemeOptions;
  for_every_scheme([](const SchemeInfo& info, const AttentionDesc& d) {
    AttentionDesc x = d;
    x.options.row_sum = O::RowSum::codes;
    expect_cell(x, info.options.row_sum, "options.row_sum", "codes");
    for (O::Table table : {O::Table::linear, O::Table::range}) {
      x = d, x.options.table = table;
      expect_cell(x, info.options.table, "options.table", name_of(EnumKind::table, static_cast<int>(table)));
    }
    x = d, x.options.quotient = O::Quotient::divide;
    expect_cell(x, info.options.quotient, "options.quotient", "divide");
    x = d, x.options.rescale = O::Rescale::accumulate;
    expect_cell(x, info.options.rescale, "options.rescale", "accumulate");
    for (int bits : {3, 9, 16}) {
      x = d, x.options.table_bits = bits;
      expect_cell(x, info.options.table, "options.table_bits", std::to_string(bits));
    }
  });
}

TEST(SupportMatrix, EveryOutputIsAcceptedOrRefusedByName) {
  for_every_scheme([](const SchemeInfo& info, AttentionDesc d) {
    for (int t = 0; t < static_cast<int>(names_of(EnumKind::dtype).size()); ++t) {
      d.output = static_cast<DType>(t);
      const bool plain = d.output == DType::f32 || d.output == DType::f16 || d.output == DType::bf16;
      const bool offered = plain || (d.output == DType::f64 && info.scheme == Scheme::exact) ||
                           (d.output == DType::s8 && info.output_codes != OutputCodes::none);
      expect_cell(d, offered, "output", name_of(d.output));
    }
  });
}

TEST(SupportMatrix, EveryInputIsAcceptedOrRefusedByName) {
  for_every_scheme([](const SchemeInfo& info, AttentionDesc d) {
    for (int t = 0; t < static_cast<int>(names_of(EnumKind::dtype).size()); ++t) {
      d.input = static_cast<DType>(t);
      const bool plain = d.input == DType::f32 || d.input == DType::f16 || d.input == DType::bf16;
      expect_cell(d, plain || (info.q_set != 0 && d.input == info.qk), "input", name_of(d.input));
    }
  });
}

TEST(SupportMatrix, KeysBeyondTheSchemesProofAreRefusedByName) {
  for_every_scheme([](const SchemeInfo& info, AttentionDesc d) {
    d.tokens_k = info.max_tokens_k;
    EXPECT_TRUE(validate_desc(d).ok()) << validate_desc(d).message();
    if (info.max_tokens_k == 0x7fffffff) return;
    ++d.tokens_k;
    expect_sentence(validate_desc(d), Code::unsupported, "tokens_k", std::to_string(d.tokens_k));
    EXPECT_NE(validate_desc(d).message().find("split the keys"), std::string::npos);
    d.sequences = 2, d.batch = 1;  // whose keys no call could be given in two
    EXPECT_NE(validate_desc(d).message().find("pack fewer sequences"), std::string::npos)
        << validate_desc(d).message();
  });
}

TEST(SupportMatrix, EverySchemeTakesEveryMaskWindowAndVarlen) {
  for_every_scheme([](const SchemeInfo&, AttentionDesc d) {
    d.mask = Mask::causal;
    d.window_left = 0, d.window_right = 3;
    d.wants_lse = true;
    EXPECT_TRUE(validate_desc(d).ok()) << validate_desc(d).message();
    d.batch = 1, d.sequences = 3;
    EXPECT_TRUE(validate_desc(d).ok()) << validate_desc(d).message();
  });
}

}  // namespace
}  // namespace octet
