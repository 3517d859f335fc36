// octet attend: one problem from files, in one scheme; the output to a file, its errors to the terminal.
#include <memory>

#include "commands.h"
#include "common/format.h"
#include "common/output_file.h"
#include "common/problem_options.h"
#include "common/recipe_text.h"
#include "common/run.h"
#include "common/sentence.h"
#include "io/npy.h"
#include "io/npy_header.h"
#include "io/safetensors.h"

namespace octet::tool {
namespace {

struct Options {
  InputOptions input;
  ProblemOptions problem;
  std::string output;
  bool lse = false, compare = false, json = false;
  int threads = 0;
};

/// What there is to tell after the run.
struct Told {
  const AttentionDesc& desc;
  const Prepared& prepared;
  const Output& output;
  std::optional<ErrorSums> errors;
  bool has_bound = false;
};

/// The rules of the output that need no data, so that they fail before the work and not after it.
Status check_output(const Options& options, const AttentionDesc& desc) {
  if (options.output.empty()) {
    if (options.compare) return {};
    return broken("--output", "missing", "the result must go somewhere",
                  "pass --output FILE, or --compare to see the errors only");
  }
  if (Status s = check_output_path(options.output); !s.ok()) return s;
  if (file_kind(options.output) != FileKind::npy) return {};
  if (options.lse || desc.output == DType::s8) {
    return broken("--output", in_quotes(options.output),
                  options.lse ? "a .npy file holds one tensor, and --lse makes two"
                              : "a .npy file holds one tensor, and s8 codes come with their scales",
                  "name a .safetensors file");
  }
  if (!npy_descr(desc.output).empty()) return {};
  return broken("--output-dtype", name_of(desc.output), "NumPy's files have no such dtype",
                "name a .safetensors file, or pass --output-dtype f32");
}

/// What reproduces the file's content, as text for its metadata.
std::map<std::string, std::string> metadata_of(const Told& told) {
  const AttentionDesc& d = told.desc;
  return {{"octet", octet_version()},
          {"scheme", name_of(d.scheme)},
          {"recipe", recipe_text(d.scheme, d.recipe)},
          {"options", scheme_options_text(d.scheme, d.options)},
          {"kernel", told.prepared.plan.kernel()},
          {"key_block", fmt::format("{}", d.key_block)},
          {"mask", enum_name(OCTET_ENUM_MASK, static_cast<int>(d.mask))},
          {"window", fmt::format("{},{}", d.window_left, d.window_right)},
          {"softmax_scale", fmt::format("{}", d.softmax_scale)}};
}

Status write_output(const Options& options, const Told& told) {
  if (options.output.empty()) return {};
  if (file_kind(options.output) == FileKind::npy) return write_npy(options.output, told.output.o);
  TensorFile file;
  file.metadata = metadata_of(told);
  file.tensors["o"] = told.output.o;
  if (told.output.lse_view.data) file.tensors["lse"] = told.output.lse;
  if (told.output.o_scale_view.data) file.tensors["o_scale"] = told.output.o_scale;
  return write_safetensors(options.output, file);
}

Json problem_json(const Told& told) {
  const AttentionDesc& d = told.desc;
  Json json;
  json["scheme"] = name_of(d.scheme);
  json["kernel"] = told.prepared.plan.kernel();
  json["backend"] = told.prepared.plan.backend();
  json["recipe"] = recipe_json(d.scheme, d.recipe);
  json["options"] = scheme_options_json(d.scheme, d.options);
  json["batch"] = d.batch, json["heads_q"] = d.heads_q, json["heads_kv"] = d.heads_kv;
  json["tokens_q"] = d.tokens_q, json["tokens_k"] = d.tokens_k;
  json["head_dim"] = d.head_dim, json["head_dim_v"] = d.head_dim_v;
  json["sequences"] = d.sequences;
  json["input"] = name_of(d.input), json["output_dtype"] = name_of(d.output);
  json["causal"] = d.mask == Mask::causal;
  json["window"] = Json::array({d.window_left, d.window_right});
  json["mask"] = enum_name(OCTET_ENUM_BIAS, static_cast<int>(d.bias));
  json["softmax_scale"] = d.softmax_scale;
  json["key_block"] = d.key_block;
  return json;
}

Json told_json(const Options& options, const Told& told, int threads) {
  Json json = problem_json(told);
  json["threads"] = threads;
  json["seconds"] = told.output.seconds;
  json["output"] = options.output.empty() ? Json(nullptr) : Json(options.output);
  if (told.errors) json.update(errors_json(*told.errors, told.has_bound));
  return json;
}

std::string errors_text(const ErrorSums& e, bool has_bound) {
  std::string text = "\nagainst float64\n";
  const auto line = [&](const char* what, const std::string& figure) {
    text += fmt::format("  {:<17}{:>12}\n", what, figure);
  };
  line("relative RMSE", percent(e.relative_rmse()));
  line("relative L1", percent(e.relative_l1()));
  line("maximum error", significant(e.max_abs_error()));
  line("SQNR", decibels(e.sqnr_db()));
  line("cosine", cosine_text(e.cosine()));
  line("largest bound", has_bound ? significant(e.largest_bound) : kNoFigure);
  line("error / bound", has_bound ? significant(e.largest_ratio) : kNoFigure);
  if (has_bound) text += "  (the largest share of its bound that any element's error takes)\n";
  return text;
}

std::string told_text(const Options& options, const Told& told, int threads) {
  const AttentionDesc& d = told.desc;
  std::string text =
      fmt::format("scheme   {}, recipe {}\n", name_of(d.scheme), recipe_text(d.scheme, d.recipe));
  if (const std::string chosen = scheme_options_text(d.scheme, d.options); !chosen.empty())
    text += fmt::format("options  {}\n", chosen);
  text += fmt::format("kernel   {}, {} thread{}, {}\n", told.prepared.plan.kernel(), threads,
                      threads == 1 ? "" : "s", seconds_text(told.output.seconds));
  text +=
      fmt::format("problem  batch {}, heads {}{}, queries {}, keys {}, dim {}{}\n", d.batch, d.heads_q,
                  d.heads_kv == d.heads_q ? "" : fmt::format(" over {}", d.heads_kv), d.tokens_q, d.tokens_k,
                  d.head_dim, d.head_dim_v == d.head_dim ? "" : fmt::format(" (v {})", d.head_dim_v));
  if (!options.output.empty()) text += fmt::format("output   {}\n", options.output);
  if (told.errors) text += errors_text(*told.errors, told.has_bound);
  return text;
}

Status run(const Options& options) {
  Result<ProblemInput> input = load_problem(options.input);
  if (!input.ok()) return input.status();
  Result<AttentionDesc> desc =
      make_desc(options.problem, input.value(), options.lse ? Lse::wanted : Lse::not_wanted);
  if (!desc.ok()) return desc.status();
  if (Status s = check_output(options, desc.value()); !s.ok()) return s;
  Result<Prepared> prepared = prepare(desc.value(), options.problem.backend);
  if (!prepared.ok()) return prepared.status();
  Threads threads(options.threads);
  Result<Output> output = attend(prepared.value(), input.value(), threads);
  if (!output.ok()) return output.status();
  Told told{desc.value(), prepared.value(), output.value(), {}, false};
  if (options.compare) {
    Result<Output> exact = attend_exactly(desc.value(), input.value(), threads);
    if (!exact.ok()) return exact.status();
    Result<std::optional<Bound>> bound = error_bound(prepared.value(), input.value(), threads);
    if (!bound.ok()) return bound.status();
    told.errors = pooled(compare(output.value(), exact.value(), bound.value()));
    told.has_bound = bound.value().has_value();
  }
  if (Status s = write_output(options, told); !s.ok()) return s;
  if (options.json) return print_json(told_json(options, told, threads.count()));
  return print(told_text(options, told, threads.count()));
}

}  // namespace

void add_attend(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Arguments command = line.command("attend", "Attention of tensors in files, in any scheme",
                                   [options] { return run(*options); });
  add_input_options(command, options->input);
  add_problem_options(command, options->problem);
  command.option("--output", "FILE", options->output,
                 "Where o goes: .safetensors (with lse, o_scale) or .npy");
  command.flag("--lse", options->lse, "Also write the log-sum-exp of each row (natural logarithm)");
  command.flag("--compare", options->compare, "Print the errors against float64 and the a-priori bound");
  add_threads_option(command, options->threads);
  add_json_option(command, options->json);
}

}  // namespace octet::tool
