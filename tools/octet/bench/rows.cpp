#include "bench/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace octet::tool {
namespace {

Status not_ours(const std::string& what) { return {Code::io, what}; }

bool is_positive(const Json& x) { return x.is_number() && x.get<double>() > 0; }

Status check_row(const Json& row, std::size_t i) {
  const auto wrong = [&](const std::string& field, const char* rule) {
    return not_ours(fmt::format("row {}: \"{}\" must be {}", i, field, rule));
  };
  if (!row.is_object()) return not_ours(fmt::format("row {} is no object", i));
  for (const char* field : {"suite", "workload", "scheme", "variant", "quantisation"})
    if (!row.contains(field) || !row[field].is_string()) return wrong(field, "a text");
  for (const char* field : {"batch", "heads", "heads_kv", "tokens_q", "tokens_k", "head_dim", "threads"})
    if (!row.contains(field) || !row[field].is_number_integer() || row[field].get<std::int64_t>() < 1)
      return wrong(field, "a positive integer");
  for (const char* field : {"causal", "bias"})
    if (!row.contains(field) || !row[field].is_boolean()) return wrong(field, "true or false");
  if (row["quantisation"] != "counted" && row["quantisation"] != "excluded")
    return wrong("quantisation", "\"counted\" or \"excluded\"");
  if (row.contains("input") && row["input"] != "f32" && row["input"] != "bf16")
    return wrong("input", "\"f32\" or \"bf16\" where it is given");
  if (!row.contains("busy") || !row["busy"].is_number_integer()) return wrong("busy", "an integer");
  if (row.contains("skipped")) {
    if (!row["skipped"].is_string() || row["skipped"].get<std::string>().empty())
      return wrong("skipped", "the reason");
    return row.contains("ms") ? wrong("ms", "left out of a row that was skipped") : Status{};
  }
  if (!row.contains("backend") || !row["backend"].is_string()) return wrong("backend", "a text");
  for (const char* field : {"ms", "gops"})
    if (!row.contains(field) || !is_positive(row[field])) return wrong(field, "a positive number");
  for (const char* field :
       {"percent_of_peak", "peak_gops", "gb_per_s", "read_gb_per_s", "percent_of_bandwidth", "ms_p90"})
    if (row.contains(field) && !is_positive(row[field]))
      return wrong(field, "a positive number where it is given");
  if (!row.contains("relative_rmse") || !(row["relative_rmse"].is_number() || row["relative_rmse"].is_null()))
    return wrong("relative_rmse", "a number, or null");
  return {};
}

}  // namespace

double rounded(double x) {
  return std::isfinite(x) ? std::strtod(fmt::format("{:.6g}", x).c_str(), nullptr) : x;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

const char* name_of(Quantisation quantisation) {
  if (quantisation == Quantisation::cached) return "cached";
  return quantisation == Quantisation::counted ? "counted" : "excluded";
}

Status check_document(const Json& document) {
  if (!document.is_object() || document.value("suite", "") != "cpu")
    return not_ours("\"suite\" must be \"cpu\"");
  for (const char* field : {"command", "version", "commit", "date", "cpu"})
    if (!document.contains(field) || !document[field].is_string())
      return not_ours(fmt::format("\"{}\" must be a text", field));
  for (const char* field : {"cpu_family", "cpu_model", "processors", "threads", "seconds"})
    if (!document.contains(field) || !document[field].is_number())
      return not_ours(fmt::format("\"{}\" must be a number", field));
  for (const char* field : {"features", "peaks", "peers", "rows"})
    if (!document.contains(field) || !document[field].is_array())
      return not_ours(fmt::format("\"{}\" must be a list", field));
  for (const Json& peak : document["peaks"])
    if (!peak.contains("what") || !peak.contains("threads") || !peak.contains("giga") ||
        !is_positive(peak["giga"]))
      return not_ours("a peak must have \"what\", \"threads\" and a positive \"giga\"");
  for (const Json& peer : document["peers"])
    if (!peer.contains("name") || !peer.contains("version"))
      return not_ours("a peer must have a name and a version");
  for (std::size_t i = 0; i < document["rows"].size(); ++i)
    if (Status s = check_row(document["rows"][i], i); !s.ok()) return s;
  return {};
}

std::string document_text(const Json& document) {
  std::string text = "{\n";
  for (const auto& [key, value] : document.items()) {
    text += text.size() == 2 ? "" : ",\n";
    text += fmt::format(" {}: ", Json(key).dump());
    if (!value.is_array() || value.empty() || !value.front().is_object()) {
      text += value.dump();
      continue;
    }
    text += "[\n";
    for (std::size_t i = 0; i < value.size(); ++i)
      text += "  " + value[i].dump() + (i + 1 < value.size() ? ",\n" : "\n");
    text += " ]";
  }
  return text + "\n}\n";
}

Result<std::vector<Json>> load_documents(const std::string& directory) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  if (paths.empty())
    return Status{
        Code::io,
        fmt::format("{} holds no .json file; run octet bench --suite cpu --output FILE first", directory)};
  std::vector<Json> documents;
  for (const auto& path : paths) {
    std::ifstream file(path);
    Json document = Json::parse_or_null(file);
    if (Status s = check_document(document); !s.ok())
      return Status{Code::io, fmt::format("{} is not what octet bench --suite cpu writes: {}", path.string(),
                                          s.message())};
    documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace octet::tool
