#include "bench/gpu_runs.h"

#include <algorithm>

#include "bench/workloads.h"

namespace octet::tool {
namespace {

bool is_faster(const Json* a, const Json* b) { return a && (!b || number(a, "gops") > number(b, "gops")); }

void add_new(std::vector<std::string>& all, const std::string& name) {
  if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
}

}  // namespace

const Json* GpuRun::find(const std::string& workload, const std::string& variant,
                         const std::string& quantisation) const {
  for (const Json& row : rows()) {
    if (!row.contains("skipped") && text(row, "workload") == workload && text(row, "variant") == variant &&
        text(row, "quantisation") == quantisation)
      return &row;
  }
  return nullptr;
}

const Json* GpuRun::best_sdpa(const std::string& workload) const {
  const Json* best = find(workload, kSdpaCudnn);
  const Json* flash = find(workload, kSdpaFlash);
  return is_faster(flash, best) ? flash : best;
}

const Json* GpuRun::fastest_octet(const std::string& workload) const {
  const Json* best = nullptr;
  for (const std::string& variant : variants(Side::octet, workload)) {
    if (variant == "f16" || variant == "bf16") continue;
    if (const Json* row = find(workload, variant); is_faster(row, best)) best = row;
  }
  return best;
}

std::vector<std::string> GpuRun::workloads(const std::string& suite) const {
  std::vector<std::string> all;
  for (const Json& row : rows())
    if (suite.empty() || text(row, "suite") == suite) add_new(all, text(row, "workload"));
  return all;
}

std::vector<std::string> GpuRun::variants(Side side, const std::string& workload) const {
  std::vector<std::string> all;
  for (const Json& row : rows()) {
    if (row.value("peer", false) != (side == Side::peer)) continue;
    if (workload.empty() || text(row, "workload") == workload) add_new(all, text(row, "variant"));
  }
  return all;
}

std::string GpuRun::shape(const std::string& workload) const {
  for (const Json& row : rows()) {
    if (text(row, "workload") != workload) continue;
    const auto at = [&](const char* field) { return row[field].get<std::int64_t>(); };
    return shape_of({"", Kind::prefill, at("batch"), at("heads"), at("heads_kv"), at("tokens_q"),
                     at("tokens_k"), at("head_dim"), row["causal"].get<bool>() ? Mask::causal : Mask::none});
  }
  return workload;
}

}  // namespace octet::tool
