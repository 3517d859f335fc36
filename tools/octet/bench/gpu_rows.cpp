#include "bench/gpu_rows.h"

#include <fmt/format.h>

#include <fstream>

namespace octet::tool {
namespace {

Status not_a_gpu_document(const std::string& what) { return {Code::io, what}; }

bool is_above_zero(const Json& x) { return x.is_number() && x.get<double>() > 0; }

Status check_gpu_row(const Json& row, std::size_t i) {
  const auto wrong = [&](const std::string& field, const char* rule) {
    return not_a_gpu_document(fmt::format("row {}: \"{}\" must be {}", i, field, rule));
  };
  if (!row.is_object()) return not_a_gpu_document(fmt::format("row {} is no object", i));
  for (const char* field : {"suite", "workload", "scheme", "variant", "gpu", "quantisation"})
    if (!row.contains(field) || !row[field].is_string()) return wrong(field, "a text");
  for (const char* field : {"batch", "heads", "heads_kv", "tokens_q", "tokens_k", "head_dim"})
    if (!row.contains(field) || !row[field].is_number_integer() || row[field].get<std::int64_t>() < 1)
      return wrong(field, "a positive integer");
  if (!row.contains("causal") || !row["causal"].is_boolean()) return wrong("causal", "true or false");
  const Json& quantisation = row["quantisation"];
  if (quantisation != "counted" && quantisation != "excluded" && quantisation != "cached")
    return wrong("quantisation", "\"counted\", \"excluded\" or \"cached\"");
  if (row.contains("skipped")) {
    if (!row["skipped"].is_string() || row["skipped"].get<std::string>().empty())
      return wrong("skipped", "the reason");
    return row.contains("ms") ? wrong("ms", "left out of a row that was skipped") : Status{};
  }
  if (!row.contains("backend") || !row["backend"].is_string()) return wrong("backend", "a text");
  for (const char* field : {"ms", "gops", "calls_per_graph", "rows_compared"})
    if (!row.contains(field) || !is_above_zero(row[field])) return wrong(field, "a positive number");
  for (const char* field : {"percent_of_peak", "joules_per_call", "mean_power_w", "mean_clock_mhz"})
    if (!row.contains(field) || !(row[field].is_null() || is_above_zero(row[field])))
      return wrong(field, "a positive number, or null");
  if (!row.contains("relative_rmse") || !(row["relative_rmse"].is_number() || row["relative_rmse"].is_null()))
    return wrong("relative_rmse", "a number, or null");
  return {};
}

Status check_gpu_inputs(const Json& inputs) {
  for (const Json& of : inputs) {
    if (!of.is_object() || !of.contains("workload") || !of["workload"].is_string())
      return not_a_gpu_document("\"inputs\" must name their workloads");
    constexpr std::size_t kOperands = 3, kNumbers = 4;
    if (!of.contains("sums") || !of["sums"].is_array() || of["sums"].size() != kOperands)
      return not_a_gpu_document("\"sums\" of inputs must be those of q, k and v");
    if (!of.contains("samples") || !of["samples"].is_array())
      return not_a_gpu_document("\"samples\" of inputs must be a list");
    for (const Json& rows : of["samples"])
      if (!rows.is_array() || rows.size() != kNumbers)
        return not_a_gpu_document("a sample of inputs must be batch, head, first row and count");
  }
  return {};
}

}  // namespace

Status check_gpu_document(const Json& document) {
  const std::string suite = document.is_object() ? document.value("suite", "") : "";
  if (suite != "vit" && suite != "llm-prefill" && suite != "decode" && suite != "gpu")
    return not_a_gpu_document("\"suite\" must be \"vit\", \"llm-prefill\", \"decode\" or \"gpu\"");
  for (const char* field :
       {"command", "version", "commit", "date", "gpu", "capability", "cuda", "driver", "energy"})
    if (!document.contains(field) || !document[field].is_string())
      return not_a_gpu_document(fmt::format("\"{}\" must be a text", field));
  for (const char* field : {"processors", "seed", "seconds"})
    if (!document.contains(field) || !document[field].is_number())
      return not_a_gpu_document(fmt::format("\"{}\" must be a number", field));
  for (const char* field : {"peaks", "peers", "inputs", "rows"})
    if (!document.contains(field) || !document[field].is_array())
      return not_a_gpu_document(fmt::format("\"{}\" must be a list", field));
  for (const Json& peak : document["peaks"])
    if (!peak.is_object() || !peak.contains("what") || !peak.contains("giga") || !is_above_zero(peak["giga"]))
      return not_a_gpu_document("a peak must have \"what\" and a positive \"giga\"");
  for (const Json& peer : document["peers"])
    if (!peer.is_object() || !peer.contains("name") || !peer.contains("version"))
      return not_a_gpu_document("a peer must have a name and a version");
  if (Status s = check_gpu_inputs(document["inputs"]); !s.ok()) return s;
  for (std::size_t i = 0; i < document["rows"].size(); ++i)
    if (Status s = check_gpu_row(document["rows"][i], i); !s.ok()) return s;
  return {};
}

Result<Json> load_gpu_document(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return Status{Code::io, fmt::format("{} cannot be read; scripts/bench-gpu writes such a file", path)};
  Json document = Json::parse_or_null(file);
  if (Status s = check_gpu_document(document); !s.ok())
    return Status{Code::io, fmt::format("{} is not what scripts/bench-gpu writes: {}", path, s.message())};
  return document;
}

}  // namespace octet::tool
