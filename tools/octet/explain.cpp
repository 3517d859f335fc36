// octet explain: which kernel would run a problem, why the others would not, and what it would cost in
// memory.
#include <algorithm>
#include <memory>

#include "commands.h"
#include "common/format.h"
#include "common/problem_options.h"
#include "common/recipe_text.h"
#include "common/sentence.h"
#include "common/table.h"
#include "common/text.h"

namespace octet::tool {
namespace {

/// The problem's shapes as the user wrote them, for want of a file.
struct Shapes {
  std::string batch = "1", heads = "1", heads_kv, tokens_q, tokens_k, head_dim, head_dim_v, dtype = "f32";
  bool lse = false;
};

struct Options {
  InputOptions input;
  Shapes shapes;
  ProblemOptions problem;
  bool json = false;
};

/// One backend's answer.
struct Candidate {
  std::string backend;
  enum class Answer : int { runs, would_take, refuses } answer;
  std::string reason;  ///< of a refusal
};

struct Explained {
  AttentionDesc desc;
  std::optional<AttentionPlan> plan;
  std::string refusal;  ///< where there is no plan
  std::vector<Candidate> candidates;
};

Result<std::int64_t> axis(const char* argument, const std::string& text, const std::string& otherwise) {
  const std::string& chosen = text.empty() ? otherwise : text;
  if (chosen.empty())
    return broken(argument, "missing", "a problem without a file needs its shapes",
                  "pass --tokens-q and --head-dim, or --input FILE");
  return parse_integer(argument, chosen, {1});
}

/// A problem without data.
Result<ProblemInput> posed(const Shapes& s) {
  struct Axis {
    const char* argument;
    const std::string &text, &otherwise;
  };
  const std::string none;
  const Axis axes[] = {{"--batch", s.batch, none},
                       {"--heads", s.heads, none},
                       {"--heads-kv", s.heads_kv, s.heads},
                       {"--tokens-q", s.tokens_q, none},
                       {"--tokens-k", s.tokens_k, s.tokens_q},
                       {"--head-dim", s.head_dim, none},
                       {"--head-dim-v", s.head_dim_v, s.head_dim}};
  std::vector<std::int64_t> n;
  for (const Axis& a : axes) {
    Result<std::int64_t> size = axis(a.argument, a.text, a.otherwise);
    if (!size.ok()) return size.status();
    n.push_back(size.value());
  }
  Result<DType> dtype = value_of<DType>(OCTET_ENUM_DTYPE, s.dtype.c_str());
  if (!dtype.ok()) return dtype.status();
  ProblemInput problem;
  const auto shaped = [&](std::int64_t heads, std::int64_t tokens, std::int64_t dim) {
    TensorView x;  // note: no strides: nothing is read, and their product might not fit
    x.dtype = dtype.value(), x.shape = {n[0], heads, tokens, dim};
    return x;
  };
  problem.q = shaped(n[1], n[3], n[5]);
  problem.k = shaped(n[2], n[4], n[5]);
  problem.v = shaped(n[2], n[4], n[6]);
  return problem;
}

Explained explained(const AttentionDesc& desc, const std::string& backend) {
  Explained e{desc, {}, {}, {}};
  Result<AttentionPlan> plan = AttentionPlan::create(desc, backend);
  if (plan.ok())
    e.plan = plan.take();
  else
    e.refusal = plan.status().message();
  for (std::int32_t i = 0; i < octet_backend_count(); ++i) {
    const char* name = octet_backend_name(i);
    const octet_attention_desc c = abi::to_c(desc);
    const octet_status code = octet_supported(&c, name, nullptr, 0);
    using Answer = Candidate::Answer;
    if (code != OCTET_OK)
      e.candidates.push_back({name, Answer::refuses, octet_last_error()});
    else if (e.plan && std::string(e.plan->backend()) == name)
      e.candidates.push_back({name, Answer::runs, {}});
    else
      e.candidates.push_back({name, Answer::would_take, {}});
  }
  return e;
}

const char* answer_text(Candidate::Answer answer) {
  switch (answer) {
    case Candidate::Answer::runs:
      return "runs";
    case Candidate::Answer::would_take:
      return "would take it";
    case Candidate::Answer::refuses:
      return "refuses";
  }
  return kNoFigure;
}

Json explained_json(const Explained& e) {
  Json json;
  json["scheme"] = name_of(e.desc.scheme);
  json["kernel"] = e.plan ? Json(e.plan->kernel()) : Json(nullptr);
  json["backend"] = e.plan ? Json(e.plan->backend()) : Json(nullptr);
  json["workspace_bytes"] = e.plan ? Json(e.plan->workspace_bytes()) : Json(nullptr);
  json["recipe"] = recipe_json(e.desc.scheme, e.desc.recipe);
  json["options"] = scheme_options_json(e.desc.scheme, e.desc.options);
  json["key_block"] = e.desc.key_block;
  json["candidates"] = Json::array();
  for (const Candidate& c : e.candidates) {
    json["candidates"].push_back({{"backend", c.backend},
                                  {"answer", answer_text(c.answer)},
                                  {"reason", c.reason.empty() ? Json(nullptr) : Json(c.reason)}});
  }
  if (!e.plan) json["reason"] = e.refusal;
  return json;
}

std::string explained_text(const Explained& e) {
  const octet_scheme_info info = info_of(e.desc.scheme);
  const AttentionDesc& d = e.desc;
  std::string text =
      fmt::format("kernel     {}\nscheme     {}: {}\n", e.plan->kernel(), info.name, info.summary);
  text += fmt::format("problem    batch {}, heads {} over {}, queries {}, keys {}, dim {} and {}\n", d.batch,
                      d.heads_q, d.heads_kv, d.tokens_q, d.tokens_k, d.head_dim, d.head_dim_v);
  text += fmt::format("formats    {} in, q and k as {}, v as {}, {} out\n", name_of(d.input),
                      enum_name(OCTET_ENUM_DTYPE, info.qk), enum_name(OCTET_ENUM_DTYPE, info.v),
                      name_of(d.output));
  text += fmt::format("recipe     {}\n", recipe_text(d.scheme, d.recipe));
  if (const std::string chosen = scheme_options_text(d.scheme, d.options); !chosen.empty())
    text += fmt::format("options    {}\n", chosen);
  text +=
      fmt::format("key block  {} keys\nworkspace  {}\n", d.key_block, bytes_text(e.plan->workspace_bytes()));
  text += "\nBackends, in the order in which they are tried\n";
  std::size_t width = 0;
  for (const Candidate& c : e.candidates) width = std::max(width, c.backend.size());
  for (const Candidate& c : e.candidates) {
    text += fmt::format("  {:<{}} {}{}\n", c.backend, width, answer_text(c.answer),
                        c.reason.empty() ? std::string() : ": " + c.reason);
  }
  return text;
}

Status explain_one(const Options& options, const ProblemInput& input, Lse lse) {
  Result<AttentionDesc> desc = make_desc(options.problem, input, lse);
  if (!desc.ok()) return desc.status();
  const Explained e = explained(desc.value(), options.problem.backend);
  if (!e.plan) return AttentionPlan::create(desc.value(), options.problem.backend).status();
  return options.json ? print_json(explained_json(e)) : print(explained_text(e));
}

/// Every scheme on the same problem: what would run each, or why nothing would.
Status explain_all(const Options& options, const ProblemInput& input, Lse lse) {
  Table table({{"scheme", Align::left}, {"kernel", Align::left}, {"workspace"}});
  std::string refusals;
  Json json = Json::array();
  for (std::int32_t i = 0; i < octet_scheme_count(); ++i) {
    ProblemOptions problem = options.problem;
    problem.scheme = name_of(static_cast<Scheme>(i));
    Result<AttentionDesc> desc = make_desc(problem, input, lse);
    if (!desc.ok()) return desc.status();
    const Explained e = explained(desc.value(), problem.backend);
    json.push_back(explained_json(e));
    table.add({problem.scheme, e.plan ? e.plan->kernel() : kNoFigure,
               e.plan ? bytes_text(e.plan->workspace_bytes()) : kNoFigure});
    if (!e.plan) refusals += fmt::format("  {}: {}\n", problem.scheme, e.refusal);
  }
  if (!refusals.empty()) refusals = "\nWhy not\n" + refusals;
  return options.json ? print_json(json) : print(table.text() + refusals);
}

Status run(const Options& options) {
  const InputOptions& files = options.input;
  const bool from_file = !files.input.empty() || !files.q.empty() || !files.k.empty() || !files.v.empty();
  Result<ProblemInput> input = from_file ? load_problem(files) : posed(options.shapes);
  if (!input.ok()) return input.status();
  const Lse lse = options.shapes.lse ? Lse::wanted : Lse::not_wanted;
  if (options.problem.scheme == "all") return explain_all(options, input.value(), lse);
  return explain_one(options, input.value(), lse);
}

void add_shape_options(Arguments& command, Shapes& shapes) {
  const auto add = [&](const char* name, std::string& to, const char* help) {
    command.option(name, "N", to, help);
  };
  add("--batch", shapes.batch, "Batch entries, where there is no file [1]");
  add("--heads", shapes.heads, "Query heads [1]");
  add("--heads-kv", shapes.heads_kv, "Heads of K and V [as --heads]");
  add("--tokens-q", shapes.tokens_q, "Queries");
  add("--tokens-k", shapes.tokens_k, "Keys [as --tokens-q]");
  add("--head-dim", shapes.head_dim, "Channels of Q and K");
  add("--head-dim-v", shapes.head_dim_v, "Channels of V [as --head-dim]");
  command.option("--dtype", "NAME", shapes.dtype, "Format of q, k and v: f32, f16, bf16 [f32]");
  command.flag("--lse", shapes.lse, "With the log-sum-exp of each row");
}

}  // namespace

void add_explain(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Arguments command = line.command("explain", "What would run for a problem, and why the others would not",
                                   [options] { return run(*options); });
  add_input_options(command, options->input);
  add_shape_options(command, options->shapes);
  add_problem_options(command, options->problem);
  command.describe("--scheme", "Numeric scheme, or all for a table of them");
  add_json_option(command, options->json);
}

}  // namespace octet::tool
