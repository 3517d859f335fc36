#include "bench/runs.h"

#include <algorithm>
#include <limits>

#include "common/format.h"

namespace octet::tool {

double number(const Json* row, const char* field) {
  if (!row || !row->contains(field) || !(*row)[field].is_number())
    return std::numeric_limits<double>::quiet_NaN();
  return (*row)[field].get<double>();
}

std::string text(const Json& row, const char* field) {
  return row.contains(field) && row[field].is_string() ? row[field].get<std::string>() : kNoFigure;
}

const Json* StoredRun::best(const Wanted& w) const {
  const Json* found = nullptr;
  for (const Json& row : rows()) {
    if (row.contains("skipped") || text(row, "workload") != w.workload || text(row, "variant") != w.variant ||
        row["threads"] != w.threads || row["busy"] != w.busy || row.value("input", "f32") != w.input)
      continue;
    if (!w.quantisation.empty() && text(row, "quantisation") != w.quantisation) continue;
    if (w.key_block != 0 && row.value("key_block", std::int64_t{0}) != w.key_block) continue;
    if (!found || number(&row, "gops") > number(found, "gops")) found = &row;
  }
  return found;
}

const Json* StoredRun::best_without_quantisation(Wanted wanted) const {
  wanted.quantisation = "excluded";
  if (const Json* row = best(wanted)) return row;
  wanted.quantisation = "counted";
  return best(wanted);
}

std::vector<std::string> StoredRun::names(const char* field, Side side, const std::string& workload) const {
  std::vector<std::string> all;
  for (const Json& row : rows()) {
    if (side != Side::both && row.value("peer", false) != (side == Side::peer)) continue;
    if (!workload.empty() && text(row, "workload") != workload) continue;
    if (const std::string name = text(row, field); std::find(all.begin(), all.end(), name) == all.end())
      all.push_back(name);
  }
  return all;
}

bool StoredRun::is_decode(const std::string& workload) const {
  return std::any_of(rows().begin(), rows().end(), [&](const Json& row) {
    return text(row, "workload") == workload && row["tokens_q"] != row["tokens_k"];
  });
}

}  // namespace octet::tool
