#include "common/problem_options.h"

#include "common/recipe_text.h"
#include "common/sentence.h"
#include "common/text.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

Status set_window(const std::string& text, AttentionDesc& desc) {
  if (text.empty()) return {};
  const std::vector<std::string> sides = split(text, ',');
  if (sides.size() != 2) {
    return broken("--window", in_quotes(text), "it has the form LEFT,RIGHT",
                  "pass keys visible before and after each query's position, -1 for all");
  }
  Result<std::int64_t> left = parse_integer("--window LEFT", sides[0], {-1});
  if (!left.ok()) return left.status();
  Result<std::int64_t> right = parse_integer("--window RIGHT", sides[1], {-1});
  if (!right.ok()) return right.status();
  desc.window_left = left.value(), desc.window_right = right.value();
  return {};
}

Status set_numbers(const ProblemOptions& options, AttentionDesc& desc) {
  if (!options.softmax_scale.empty()) {
    Result<float> scale = parse_real("--softmax-scale", options.softmax_scale);
    if (!scale.ok()) return scale.status();
    desc.softmax_scale = scale.value();
  }
  if (!options.key_block.empty()) {
    Result<std::int64_t> block = parse_integer("--key-block", options.key_block, {1});
    if (!block.ok()) return block.status();
    desc.key_block = block.value();
  }
  return set_window(options.window, desc);
}

Status set_names(const ProblemOptions& options, AttentionDesc& desc) {
  Result<Recipe> recipe = parse_recipe(options.recipe, desc.recipe);
  if (!recipe.ok()) return recipe.status();
  desc.recipe = recipe.value();
  Result<SchemeOptions> chosen = parse_scheme_options(options.option);
  if (!chosen.ok()) return chosen.status();
  desc.options = chosen.value();
  if (options.output_dtype.empty()) return {};
  std::int32_t dtype = 0;
  if (octet_enum_value(OCTET_ENUM_DTYPE, options.output_dtype.c_str(), &dtype) != OCTET_OK) {
    return broken("--output-dtype", in_quotes(options.output_dtype), "there is no such dtype",
                  "choose one of f32, f16, bf16, f64 (scheme exact), s8 (schemes that end in codes)");
  }
  desc.output = static_cast<DType>(dtype);
  return {};
}

}  // namespace

void add_recipe_options(Arguments& command, ProblemOptions& options) {
  command.option("--scheme", "NAME", options.scheme, "Numeric scheme: octet info lists them").shows_default();
  command.option(
      "--recipe", "LIST", options.recipe,
      "How q, k and v become codes, as in q=token,k=block,v=token,smooth=mean,rotate=on,equalise=on");
  command.option(
      "--option", "LIST", options.option,
      "Choices inside a scheme, as in row_sum=codes or table=linear,table_bits=8 or quotient=divide");
  command.option("--key-block", "N", options.key_block, "Keys a block; part of a scheme's result [128]");
}

void add_problem_options(Arguments& command, ProblemOptions& options) {
  add_recipe_options(command, options);
  command.flag("--causal", options.causal, "Hide later keys; the last query is aligned with the last key");
  command.option("--window", "L,R", options.window, "Keys visible before and after each position, -1: all");
  command.option("--softmax-scale", "X", options.softmax_scale, "Factor of the scores [1 / sqrt(dim)]");
  command.option("--output-dtype", "NAME", options.output_dtype,
                 "f32, f16, bf16, f64 (exact) or s8 codes [f32]");
  command.option("--backend", "NAME", options.backend, "Backend to use [the first that takes the problem]");
}

Result<AttentionDesc> make_desc(const ProblemOptions& options, const ProblemInput& input, Lse lse) {
  Result<Scheme> scheme = parse_scheme(options.scheme);
  if (!scheme.ok()) return scheme.status();
  Result<AttentionDesc> described = describe(scheme.value(), input.q, input.k, input.v);
  if (!described.ok()) return described.status();
  AttentionDesc desc = described.take();
  desc.mask = options.causal ? Mask::causal : Mask::none;
  desc.sequences = input.sequences;
  desc.wants_lse = lse == Lse::wanted;
  if (input.mask.data) {
    desc.bias =
        input.mask.dtype == DType::boolean ? AttentionDesc::Bias::boolean : AttentionDesc::Bias::additive;
  }
  if (Status s = set_names(options, desc); !s.ok()) return s;
  if (Status s = set_numbers(options, desc); !s.ok()) return s;
  return desc;
}

void add_threads_option(Arguments& command, int& threads) {
  static constexpr int kMost = 4096;  // beyond any machine; a mistyped number must not start millions
  command.option("--threads", "N", threads, "Threads, 0: as many as processors")
      .environment("OCTET_THREADS")
      .check([](const std::string& text) {
        return parse_integer("it", text, {0, kMost}).ok()
                   ? std::string()
                   : fmt::format("{} is no number in 0 to {}", in_quotes(text), kMost);
      })
      .shows_default();
}

}  // namespace octet::tool
