#include "accuracy/input_table.h"

#include <fmt/format.h>

#include "accuracy/measure.h"
#include "common/format.h"
#include "common/progress.h"
#include "common/recipe_text.h"
#include "common/table.h"
#include "common/text.h"

namespace octet::tool {
namespace {

struct Row {
  Variant variant;
  AttentionDesc desc;
  Measured measured;
};
struct Refusal {
  std::string name;
  Status status;
};
struct Rows {
  AttentionDesc problem;
  std::vector<Row> measured;
  std::vector<Refusal> refused;
};

/// The schemes that were asked for. One that ends in codes has one row: its f32 output is codes times scales.
Result<std::vector<Variant>> variants_of(const std::string& names) {
  std::vector<Variant> variants;
  for (const std::string& name : split(names, ',')) {
    Result<Scheme> scheme = parse_scheme(name);
    if (!scheme.ok()) return scheme.status();
    variants.push_back(variant_of(scheme.value()));
  }
  // note: without a list, the oracle stays out: its row would be its own rounding to f32.
  for (int i = names.empty() ? 1 : kSchemes; i < kSchemes; ++i)
    variants.push_back(variant_of(static_cast<Scheme>(i)));
  return variants;
}

Result<Rows> measure_all(const InputTableOptions& options, const ProblemInput& input,
                         std::vector<Variant> variants) {
  ProblemOptions any = options.problem;
  any.scheme = octet::name_of(Scheme::f32);  // poses the problem; variants fill in their own
  Result<AttentionDesc> problem = make_desc(any, input, Lse::not_wanted);
  if (!problem.ok()) return problem.status();
  Threads threads(options.threads);
  Result<Output> exact = attend_exactly(problem.value(), input, threads);
  if (!exact.ok()) return exact.status();
  Rows rows{problem.value(), {}, {}};
  Progress progress("schemes", static_cast<std::int64_t>(variants.size()));
  for (Variant& variant : variants) {
    variant.key_block = problem.value().key_block;
    Result<AttentionDesc> desc = variant.applied_to(problem.value());
    if (!desc.ok()) return desc.status();
    Result<Measured> measured = measure(desc.value(), input, exact.value(), WithBound::yes, threads);
    if (measured.ok())
      rows.measured.push_back({variant, desc.value(), measured.take()});
    else
      rows.refused.push_back({variant.name, measured.status()});
    progress.advance(1, variant.name);
  }
  if (rows.measured.empty()) return rows.refused.front().status;
  return rows;
}

std::string main_table(const Rows& rows) {
  Table table({{"scheme", Align::left},
               {"RMSE %"},
               {"L1 %"},
               {"SQNR dB"},
               {"cosine"},
               {"max error"},
               {"max bound"},
               {"error/bound"}});
  for (const Row& row : rows.measured) {
    const ErrorSums e = row.measured.all();
    const bool has_bound = row.measured.has_bound;
    table.add({row.variant.name, significant(100 * e.relative_rmse()), significant(100 * e.relative_l1()),
               std::isfinite(e.sqnr_db()) ? fmt::format("{:.1f}", e.sqnr_db()) : kNoFigure,
               cosine_text(e.cosine()), significant(e.max_abs_error()),
               has_bound ? significant(e.largest_bound) : kNoFigure,
               has_bound ? significant(e.largest_ratio) : kNoFigure});
  }
  return table.text();
}

std::string batch_table(const Rows& rows) {
  std::vector<Table::Column> columns = {{"scheme", Align::left}};
  const std::size_t entries = rows.measured.front().measured.entries.size();
  for (std::size_t b = 0; b < entries; ++b) columns.push_back({fmt::format("batch {}", b)});
  Table table(std::move(columns));
  for (const Row& row : rows.measured) {
    std::vector<std::string> cells = {row.variant.name};
    for (const ErrorSums& e : row.measured.entries) cells.push_back(significant(100 * e.relative_rmse()));
    table.add(std::move(cells));
  }
  return table.text();
}

std::string text_of(const InputTableOptions& options, const Rows& rows) {
  const AttentionDesc& d = rows.problem;
  std::string text = fmt::format(
      "Attention of {}: batch {}, heads {}, queries {}, keys {}, dim {}{}\n"
      "Errors against float64, relative to the exact output; default recipes, key block {}\n\n",
      options.input.input.empty() ? "q, k, v" : options.input.input, d.batch, d.heads_q, d.tokens_q,
      d.tokens_k, d.head_dim, d.mask == Mask::causal ? ", causal" : "", d.key_block);
  text += main_table(rows);
  text +=
      "\nmax bound: the largest a-priori bound of any element; error/bound: the largest share of its own\n"
      "bound that any element's error takes.\n";
  if (options.by_batch) text += "\nRMSE % by batch entry\n\n" + batch_table(rows);
  for (const Refusal& refusal : rows.refused)
    text += fmt::format("\nnot run: {}: {}\n", refusal.name, refusal.status.message());
  return text;
}

Json row_json(const Row& row) {
  Json json;
  json["name"] = row.variant.name;
  json["scheme"] = octet::name_of(row.variant.scheme);
  json["recipe"] = recipe_json(row.variant.scheme, row.desc.recipe);
  json.update(errors_json(row.measured.all(), row.measured.has_bound));
  for (const ErrorSums& e : row.measured.entries) json["relative_rmse_by_batch"].push_back(e.relative_rmse());
  return json;
}

Json json_of(const InputTableOptions& options, const Rows& rows) {
  const AttentionDesc& d = rows.problem;
  Json json;
  json["input"] = options.input.input;
  json["batch"] = d.batch, json["heads_q"] = d.heads_q, json["heads_kv"] = d.heads_kv;
  json["tokens_q"] = d.tokens_q, json["tokens_k"] = d.tokens_k;
  json["head_dim"] = d.head_dim, json["head_dim_v"] = d.head_dim_v;
  json["causal"] = d.mask == Mask::causal;
  json["key_block"] = d.key_block, json["softmax_scale"] = d.softmax_scale;
  json["schemes"] = Json::array(), json["refused"] = Json::array();
  for (const Row& row : rows.measured) json["schemes"].push_back(row_json(row));
  for (const Refusal& refusal : rows.refused)
    json["refused"].push_back({{"name", refusal.name}, {"reason", refusal.status.message()}});
  return json;
}

}  // namespace

Status print_input_table(const InputTableOptions& options) {
  Result<std::vector<Variant>> variants = variants_of(options.schemes);
  if (!variants.ok()) return variants.status();
  Result<ProblemInput> input = load_problem(options.input);
  if (!input.ok()) return input.status();
  Result<Rows> rows = measure_all(options, input.value(), variants.take());
  if (!rows.ok()) return rows.status();
  return options.json ? print_json(json_of(options, rows.value())) : print(text_of(options, rows.value()));
}

}  // namespace octet::tool
