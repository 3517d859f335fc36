#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/bars.h"
#include "bench/runs.h"
#include "bench/workloads.h"
#include "common/format.h"
#include "common/table.h"

namespace octet::tool {
namespace {

constexpr const char* kGenerated =
    "<!-- Made by `octet bench --suite report` from results/benchmarks/*.json and, for the GPU, "
    "results/device/gpu-suite.json; a test compares them. -->\n\n";

/// A peer has none.
std::string block_text(const Json& row) {
  return row.contains("key_block") ? row["key_block"].dump() : kNoFigure;
}

std::string ratio(double a, double b) { return std::isfinite(a / b) ? significant(a / b) + " ×" : kNoFigure; }

std::string shape_text(const StoredRun& run, const std::string& workload) {
  for (const CpuWorkload& w : cpu_workloads())
    if (workload == w.name) return shape_of(w);
  return run.rows().empty() ? "" : workload;
}

std::string cpu_name(const Json& d) {
  return fmt::format("{}, family {} model {}", text(d, "cpu"), d["cpu_family"].dump(), d["cpu_model"].dump());
}

std::string provenance(const StoredRun& run) {
  const Json& d = run.document();
  std::string features, peers;
  for (const Json& f : d["features"]) features += (features.empty() ? "" : " ") + f.get<std::string>();
  for (const Json& p : d["peers"])
    peers += (peers.empty() ? "" : ", ") + text(p, "name") + " " + text(p, "version");
  std::string backends;
  for (const std::string& b : run.names("backend", StoredRun::Side::octet))
    if (b != kNoFigure) backends += (backends.empty() ? "" : ", ") + b;
  return fmt::format(
      "`{}`, version {}, commit {}, {}; {} processors, {} threads; {:.0f} s. CPU features: {}. Backends: {}. "
      "Peers: {}.\n\n",
      text(d, "command"), text(d, "version"), text(d, "commit"), text(d, "date"), d["processors"].dump(),
      run.threads(), number(&d, "seconds"), features, backends, peers.empty() ? "none" : peers);
}

std::string peaks_table(const StoredRun& run) {
  std::vector<std::string> order;
  std::map<std::string, std::map<std::int64_t, double>> rates;
  for (const Json& peak : run.document()["peaks"]) {
    const std::string what = text(peak, "what");
    if (!rates.contains(what)) order.push_back(what);
    rates[what][peak["threads"].get<std::int64_t>()] = number(&peak, "giga");
  }
  Table table(
      {{"", Align::left}, {"1 thread"}, {fmt::format("{} threads", run.threads())}, {"", Align::left}});
  for (const std::string& what : order) {
    const auto cell = [&](std::int64_t threads) {
      return rates[what].contains(threads) ? significant(rates[what][threads]) : kNoFigure;
    };
    table.add({what, cell(1), cell(run.threads()), what == "read" ? "GB/s" : "Gop/s"});
  }
  return table.markdown();
}

std::string shape_table(const StoredRun& run, const std::string& workload) {
  Table table({{"", Align::left},
               {"backend", Align::left},
               {"key block"},
               {"Gop/s, 1 thread"},
               {"of peak"},
               {"ms"},
               {"with quantisation"},
               {"from bf16"},
               {fmt::format("{} threads", run.threads())},
               {"× own f32"},
               {"relative RMSE"}});
  const double own_f32 = number(run.best({workload, "f32"}), "gops");
  for (const std::string& variant : run.names("variant", StoredRun::Side::both, workload)) {
    const Json* row = run.best_without_quantisation({workload, variant});
    if (!row) continue;
    const bool peer = row->value("peer", false);
    const double gops = number(row, "gops");
    const Json* counted = run.best({workload, variant, 1, "counted"});
    const Json* from_bf16 = run.best({workload, variant, 1, "counted", 0, 0, "bf16"});
    const Json* all = run.best_without_quantisation({workload, variant, run.threads()});
    table.add({peer ? "*" + variant + "*" : variant, text(*row, "backend"), block_text(*row),
               significant(gops), percent(number(row, "percent_of_peak") / 100),
               significant(number(row, "ms")), significant(number(counted, "gops")),
               significant(number(from_bf16, "gops")), significant(number(all, "gops")), ratio(gops, own_f32),
               percent(number(row, "relative_rmse"))});
  }
  return table.markdown();
}

/// The fastest of octet's 8-bit forms against everything else: of decode the one that a cache keeps.
std::string ratios_table(const StoredRun& run) {
  const std::vector<std::string> peers = run.names("variant", StoredRun::Side::peer);
  std::vector<Table::Column> columns{
      {"shape", Align::left}, {"int8, Gop/s"}, {"own f32"}, {"own bf16"}, {"own f16"}};
  for (const std::string& peer : peers) columns.push_back({peer});
  Table table(std::move(columns));
  for (const std::string& workload : run.names("workload", StoredRun::Side::octet)) {
    const Json* ours =
        run.best_without_quantisation({workload, run.is_decode(workload) ? "int8" : "int8_kblock"});
    if (!ours) continue;
    const double gops = number(ours, "gops");
    std::vector<std::string> cells{shape_text(run, workload), significant(gops)};
    std::vector<std::string> rivals{"f32", "bf16", "f16"};
    rivals.insert(rivals.end(), peers.begin(), peers.end());
    for (const std::string& rival : rivals)
      cells.push_back(ratio(gops, number(run.best_without_quantisation({workload, rival}), "gops")));
    table.add(std::move(cells));
  }
  return table.markdown();
}

std::string blocks_table(const StoredRun& run) {
  Table table({{"shape", Align::left},
               {"scheme", Align::left},
               {"128"},
               {"256"},
               {"512"},
               {"1024"},
               {"RMSE, 128"},
               {"256"},
               {"512"},
               {"1024"}});
  for (const std::string& workload : run.names("workload", StoredRun::Side::octet)) {
    if (run.is_decode(workload)) continue;
    for (const std::string& variant : run.names("variant", StoredRun::Side::octet, workload)) {
      std::vector<std::string> cells{shape_text(run, workload), variant}, errors;
      bool any = false;
      for (const std::int64_t block : {128, 256, 512, 1024}) {
        const Json* row = run.best_without_quantisation({workload, variant, 1, {}, block});
        any |= row && block != 128;
        cells.push_back(percent(number(row, "percent_of_peak") / 100));
        errors.push_back(percent(number(row, "relative_rmse")));
      }
      cells.insert(cells.end(), errors.begin(), errors.end());
      if (any) table.add(std::move(cells));
    }
  }
  return table.markdown();
}

std::string decode_table(const StoredRun& run) {
  Table table({{"shape", Align::left},
               {"", Align::left},
               {"ms, 1 thread"},
               {"GB/s"},
               {"of bandwidth"},
               {fmt::format("ms, {} threads", run.threads())},
               {"GB/s"},
               {"of bandwidth"},
               {"relative RMSE"}});
  for (const std::string& workload : run.names("workload", StoredRun::Side::octet)) {
    if (!run.is_decode(workload)) continue;
    for (const std::string& variant : run.names("variant", StoredRun::Side::both, workload)) {
      const Json* one = run.best_without_quantisation({workload, variant});
      const Json* all = run.best_without_quantisation({workload, variant, run.threads()});
      if (!one && !all) continue;
      const auto share = [](const Json* row) { return percent(number(row, "percent_of_bandwidth") / 100); };
      table.add({shape_text(run, workload),
                 (one ? one : all)->value("peer", false) ? "*" + variant + "*" : variant,
                 significant(number(one, "ms")), significant(number(one, "gb_per_s")), share(one),
                 significant(number(all, "ms")), significant(number(all, "gb_per_s")), share(all),
                 percent(number(one ? one : all, "relative_rmse"))});
    }
  }
  return table.markdown();
}

std::string bars_table(const StoredRun& run) {
  Table table({{"bar", Align::left}, {"asks for"}, {"measured"}, {"", Align::left}});
  for (const CpuBar& bar : cpu_bars_of(run)) table.add({bar.what, bar.threshold, bar.measured, bar.verdict});
  return table.markdown();
}

std::string load_table(const StoredRun& run) {
  Table table({{"shape", Align::left},
               {"scheme", Align::left},
               {"1 thread, ms"},
               {"p90"},
               {fmt::format("{} threads, ms", run.threads())},
               {"p90"},
               {"ratio of medians"}});
  constexpr std::int64_t kBusy = 2;
  for (const std::string& workload : run.names("workload", StoredRun::Side::octet)) {
    for (const std::string& variant : run.names("variant", StoredRun::Side::octet, workload)) {
      const Json* one = run.best({workload, variant, 1, {}, 0, kBusy});
      const Json* all = run.best({workload, variant, run.threads(), {}, 0, kBusy});
      if (!one || !all) continue;
      table.add({shape_text(run, workload), variant, significant(number(one, "ms")),
                 significant(number(one, "ms_p90")), significant(number(all, "ms")),
                 significant(number(all, "ms_p90")), ratio(number(all, "ms"), number(one, "ms"))});
    }
  }
  return table.markdown();
}

/// Rows that were not measured, by reason.
std::string skipped_list(const StoredRun& run) {
  std::vector<std::string> reasons;
  std::map<std::string, std::pair<int, std::string>> by_reason;
  for (const Json& row : run.rows()) {
    if (!row.contains("skipped")) continue;
    // The seconds that a call would take differ from row to row; the reason does not.
    std::string reason = text(row, "skipped");
    if (reason.starts_with("a call would take")) reason = "a call would take too long";
    if (!by_reason.contains(reason)) reasons.push_back(reason);
    auto& [count, where] = by_reason[reason];
    ++count;
    const std::string place = text(row, "workload");
    if (where.find(place) == std::string::npos) where += (where.empty() ? "" : ", ") + place;
  }
  std::string list;
  for (const std::string& reason : reasons)
    list += fmt::format("- {} rows ({}): {}\n", by_reason[reason].first, by_reason[reason].second, reason);
  return list.empty() ? "None.\n" : list;
}

/// One processor may have several runs, each held to another instruction set: the first row's of int8 tells
/// them apart.
std::string heading_of(const StoredRun& run) {
  for (const Json& row : run.rows())
    if (text(row, "variant").starts_with("int8") && !row.contains("skipped"))
      return fmt::format("## {}: {}\n\n", cpu_name(run.document()), text(row, "backend"));
  return fmt::format("## {}\n\n", cpu_name(run.document()));
}

std::string run_text(const StoredRun& run) {
  std::string page = heading_of(run) + provenance(run) + peaks_table(run) + "\n";
  page += "### Bars\n\n" + bars_table(run) + "\n";
  page +=
      "### Against the others\n\nint8_kblock with its fastest key block, and for decode int8 from a cache, "
      "one thread, quantisation excluded, over each of them.\n\n";
  page += ratios_table(run) + "\n### By shape\n";
  for (const std::string& workload : run.names("workload", StoredRun::Side::octet)) {
    if (run.is_decode(workload)) continue;
    page +=
        fmt::format("\n#### {} ({})\n\n{}", shape_text(run, workload), workload, shape_table(run, workload));
  }
  page += "\n### By key block\n\nShare of peak on one thread, quantisation excluded, and the error.\n\n" +
          blocks_table(run);
  page +=
      "\n### Decode\n\nKeys and values lie in memory in the scheme's format, in more copies than caches "
      "hold.\n\n" +
      decode_table(run);
  page += "\n### Beside two busy processes\n\nSingle calls, key block 128.\n\n" + load_table(run);
  page += "\n### Not measured\n\n" + skipped_list(run);
  return page;
}

constexpr const char* kIntroduction =
    "# Benchmarks\n\n"
    "Each section of a CPU is one run of `scripts/bench-cpu`: octet's suite, then the peers, on one machine. "
    "Shapes "
    "are "
    "[batch x] heads x tokens x dim; inputs are normal. Gop/s count both products, 4 · heads · queries · "
    "keys · dim, half of it "
    "with a causal mask. Times are medians of groups of calls after one to warm up. The peak is the measured "
    "rate of the "
    "instruction that the products run on (for peers: of their number format), taken before and after "
    "each group, whose shares are the medians. "
    "Quantisation is *excluded* where a call is given codes, and K and V were packed before it (but for "
    "decode), "
    "and *counted* where it is given f32 (*from bf16*: bf16 to bf16), makes codes of it and packs them. The "
    "error is "
    "against float64, over rows at the beginning, in the middle and at the end of long shapes. `int8_kblock` "
    "is `int8` with one "
    "scale for each key block of K. Italics are peers.\n\n";

}  // namespace

std::string rows_table(const Json& document) {
  Table table({{"workload", Align::left},
               {"scheme", Align::left},
               {"backend", Align::left},
               {"block"},
               {"quantisation", Align::left},
               {"input", Align::left},
               {"threads"},
               {"busy"},
               {"ms"},
               {"Gop/s"},
               {"of peak"},
               {"of bandwidth"},
               {"relative RMSE"},
               {"", Align::left}});
  for (const Json& row : document["rows"]) {
    const std::string skipped = row.contains("skipped") ? "skipped: " + text(row, "skipped") : "";
    table.add({text(row, "workload"), text(row, "variant"), text(row, "backend"), block_text(row),
               text(row, "quantisation"), text(row, "input"), row["threads"].dump(), row["busy"].dump(),
               significant(number(&row, "ms")), significant(number(&row, "gops")),
               percent(number(&row, "percent_of_peak") / 100),
               percent(number(&row, "percent_of_bandwidth") / 100), percent(number(&row, "relative_rmse")),
               skipped});
  }
  return fmt::format("{}\n{} threads; {:.0f} s on {}.\n", table.text(), document["threads"].dump(),
                     number(&document, "seconds"), cpu_name(document));
}

std::string benchmarks_page(const std::vector<Json>& documents) {
  std::string page = std::string(kGenerated) + kIntroduction;
  for (std::size_t i = 0; i < documents.size(); ++i)
    page += (i > 0 ? "\n" : "") + run_text(StoredRun(documents[i]));
  return page;
}

}  // namespace octet::tool
