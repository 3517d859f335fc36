#include "bench/gpu_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/gpu_bars.h"
#include "bench/gpu_papers.h"
#include "bench/gpu_runs.h"
#include "common/format.h"
#include "common/table.h"

namespace octet::tool {
namespace {

/// Microseconds below a millisecond's tenth, milliseconds above.
std::string time_text(double ms) {
  if (!std::isfinite(ms)) return kNoFigure;
  constexpr double kShort = 0.1;
  return ms < kShort ? significant(1e3 * ms) + " µs" : significant(ms) + " ms";
}

std::string times_text(double x) { return std::isfinite(x) ? significant(x) + " ×" : kNoFigure; }

std::string joules_text(double joules) {
  if (!std::isfinite(joules)) return kNoFigure;
  return joules < 1 ? significant(1e3 * joules) + " mJ" : significant(joules) + " J";
}

std::string tera_text(double gops) { return significant(1e-3 * gops); }

/// Shapes that are read together.
struct Group {
  const char* title;
  bool (*holds)(const std::string& workload);
};
constexpr Group kGroups[] = {
    {"A1 to A7, batch 1", [](const std::string& w) { return w.starts_with("A") && w.ends_with("-b1"); }},
    {"A1 to A7, batch 8", [](const std::string& w) { return w.starts_with("A") && w.ends_with("-b8"); }},
    {"A2, batch 1024: the steps of QFlash's ablation, and exponentials in one kernel",
     [](const std::string& w) { return w == "A2-b1024"; }},
    {"INT-FlashAttention's protocol", [](const std::string& w) { return w.starts_with("h32-"); }},
    {"16k tokens, hidden size 2048",
     [](const std::string& w) { return w.starts_with("d") && !w.ends_with("-causal"); }},
    {"The same, causal, and a model of 32 heads over 8",
     [](const std::string& w) { return w.ends_with("-causal"); }},
    {"Images, as diffusion models see them", [](const std::string& w) { return w.starts_with("image-"); }},
    {"One query, few, and chunks of a prompt against many keys",
     [](const std::string& w) { return w.starts_with("step") || w.starts_with("chunk-"); }},
};

std::string gpu_provenance(const Json& d) {
  std::string peers, peaks;
  for (const Json& p : d["peers"])
    peers += (peers.empty() ? "" : ", ") + text(p, "name") + " " + text(p, "version");
  for (const Json& p : d["peaks"])
    peaks += fmt::format("{}{} {} TOPS", peaks.empty() ? "" : ", ", text(p, "what"),
                         tera_text(number(&p, "giga")));
  return fmt::format(
      "`{}`, version {}, commit {}, {}; compute capability {}, {} processors, driver {}, CUDA {}; {:.0f} s. "
      "Peaks: {}. Energy: {}. Peers: {}.\n\n",
      text(d, "command"), text(d, "version"), text(d, "commit"), text(d, "date"), text(d, "capability"),
      d["processors"].dump(), text(d, "driver"), text(d, "cuda"), number(&d, "seconds"),
      peaks.empty() ? "not measured" : peaks, text(d, "energy"), peers.empty() ? "none" : peers);
}

std::string gpu_bars_table(const GpuRun& run) {
  Table table({{"bar", Align::left}, {"asks for"}, {"measured"}, {"", Align::left}});
  for (const CpuBar& bar : gpu_bars_of(run)) table.add({bar.what, bar.threshold, bar.measured, bar.verdict});
  return table.markdown();
}

std::string gpu_papers_table(const GpuRun& run) {
  const std::vector<PaperFigure> figures = paper_figures_of(run);
  if (figures.empty()) return "This run has none of their shapes whole.\n";
  Table table({{"#"},
               {"claim", Align::left},
               {"protocol", Align::left},
               {"paper", Align::left},
               {"octet", Align::left},
               {"verdict", Align::left}});
  for (const PaperFigure& f : figures)
    table.add({fmt::format("{}", f.number), f.claim, f.protocol, f.paper, f.ours, f.verdict});
  return table.markdown();
}

/// Whether some variant of some workload was measured so.
bool is_measured(const GpuRun& run, const std::vector<std::string>& workloads,
                 const std::string& quantisation) {
  return std::any_of(run.rows().begin(), run.rows().end(), [&](const Json& row) {
    return !row.contains("skipped") && text(row, "quantisation") == quantisation &&
           std::find(workloads.begin(), workloads.end(), text(row, "workload")) != workloads.end();
  });
}

/// Each variant's speed over the best of PyTorch's SDPA, beside that one's time.
std::string ratios_of_group(const GpuRun& run, const std::vector<std::string>& workloads,
                            const std::string& quantisation) {
  std::vector<std::string> variants;
  std::vector<Table::Column> columns{{"", Align::left}, {"shape", Align::left}, {"best SDPA"}, {"which"}};
  for (const GpuRun::Side side : {GpuRun::Side::octet, GpuRun::Side::peer}) {
    for (const std::string& v : run.variants(side)) {
      const bool has_rows = std::any_of(workloads.begin(), workloads.end(), [&](const std::string& w) {
        return run.find(w, v, quantisation) != nullptr;
      });
      if (v == kSdpaCudnn || v == kSdpaFlash || !has_rows) continue;
      variants.push_back(v);
      columns.push_back({side == GpuRun::Side::peer ? "*" + v + "*" : v});
    }
  }
  Table table(std::move(columns));
  for (const std::string& w : workloads) {
    const Json* best = run.best_sdpa(w);
    const char* which = !best ? kNoFigure : text(*best, "variant") == kSdpaCudnn ? "cuDNN" : "flash";
    std::vector<std::string> cells{w, run.shape(w), time_text(number(best, "ms")), which};
    for (const std::string& v : variants) {
      const Json* row = run.find(w, v, quantisation);
      cells.push_back(best ? times_text(number(row, "gops") / number(best, "gops"))
                           : time_text(number(row, "ms")));
    }
    table.add(std::move(cells));
  }
  return table.markdown();
}

std::string gpu_shape_table(const GpuRun& run, const std::string& workload) {
  std::vector<Table::Column> columns{{"", Align::left}, {"kernel"},       {"TOPS"},        {"of peak"},
                                     {"× best SDPA"},   {"from bf16"},    {"× best SDPA"}, {"relative RMSE"},
                                     {"from bf16"},     {"energy a call"}};
  const bool has_cache = is_measured(run, {workload}, "cached");
  if (has_cache) columns.insert(columns.end(), {{"with a cache"}, {"× best SDPA"}, {"relative RMSE"}});
  Table table(std::move(columns));
  const double best = number(run.best_sdpa(workload), "gops");
  for (const GpuRun::Side side : {GpuRun::Side::octet, GpuRun::Side::peer}) {
    for (const std::string& variant : run.variants(side, workload)) {
      const Json* kernel = run.find(workload, variant);
      const Json* whole = run.find(workload, variant, "counted");
      const Json* cached = run.find(workload, variant, "cached");
      if (!kernel && !whole && !cached) continue;
      std::vector<std::string> cells{side == GpuRun::Side::peer ? "*" + variant + "*" : variant,
                                     time_text(number(kernel, "ms")),
                                     tera_text(number(kernel, "gops")),
                                     percent(number(kernel, "percent_of_peak") / 100),
                                     times_text(number(kernel, "gops") / best),
                                     time_text(number(whole, "ms")),
                                     times_text(number(whole, "gops") / best),
                                     percent(number(kernel, "relative_rmse")),
                                     percent(number(whole, "relative_rmse")),
                                     joules_text(number(kernel, "joules_per_call"))};
      if (has_cache) {
        cells.push_back(time_text(number(cached, "ms")));
        cells.push_back(times_text(number(cached, "gops") / best));
        cells.push_back(percent(number(cached, "relative_rmse")));
      }
      table.add(std::move(cells));
    }
  }
  return table.markdown();
}

std::string energy_table(const GpuRun& run) {
  Table table({{"shape", Align::left},
               {"", Align::left},
               {"energy a call"},
               {"of SDPA flash's"},
               {"power"},
               {"clock"},
               {"energy from bf16"}});
  bool any = false;
  for (const std::string& w : run.workloads()) {
    const double flash = number(run.find(w, kSdpaFlash), "joules_per_call");
    for (const GpuRun::Side side : {GpuRun::Side::octet, GpuRun::Side::peer}) {
      for (const std::string& variant : run.variants(side, w)) {
        const Json* kernel = run.find(w, variant);
        const Json* whole = run.find(w, variant, "counted");
        const double joules = number(kernel, "joules_per_call");
        const double from_bf16 = number(whole, "joules_per_call");
        if (!std::isfinite(joules) && !std::isfinite(from_bf16)) continue;
        any = true;
        const auto with_unit = [](double x, const char* unit) {
          return std::isfinite(x) ? fmt::format("{:.0f} {}", x, unit) : kNoFigure;
        };
        table.add({run.shape(w), side == GpuRun::Side::peer ? "*" + variant + "*" : variant,
                   joules_text(joules), percent(joules / flash),
                   with_unit(number(kernel, "mean_power_w"), "W"),
                   with_unit(number(kernel, "mean_clock_mhz"), "MHz"), joules_text(from_bf16)});
      }
    }
  }
  return any ? table.markdown() : "Not measured.\n";
}

/// Rows that were not measured, by reason.
std::string gpu_skipped_list(const GpuRun& run) {
  std::vector<std::string> reasons;
  std::map<std::string, std::pair<int, std::string>> by_reason;
  for (const Json& row : run.rows()) {
    if (!row.contains("skipped")) continue;
    const std::string reason = text(row, "variant") + ": " + text(row, "skipped");
    if (!by_reason.contains(reason)) reasons.push_back(reason);
    auto& [count, where] = by_reason[reason];
    ++count;
    const std::string place = text(row, "workload");
    if (!where.ends_with(place)) where += (where.empty() ? "" : ", ") + place;
  }
  std::string list;
  for (const std::string& reason : reasons)
    list += fmt::format("- {} rows ({}): {}\n", by_reason[reason].first, by_reason[reason].second, reason);
  return list.empty() ? "None.\n" : list;
}

constexpr const char* kGpuIntroduction =
    "One run of `scripts/bench-gpu`: octet's GPU suites and the peers, workload by workload, "
    "on one GPU. Inputs are normal numbers in bf16, the same for all. A time is the median of seven replays "
    "of a "
    "CUDA graph of up to a hundred calls, after replays to warm up. *Kernel*: octet is given codes and "
    "packed K and "
    "V and writes f16 (comfy-kitchen: given its own codes); *from bf16*: the whole call, bf16 to bf16. "
    "Operations "
    "count both products, half of them with a causal mask; the peak is what mma.sync of the scheme's formats "
    "reaches "
    "from registers in the same run. A ratio is a speed over the faster of PyTorch's SDPA backends, cuDNN "
    "and flash "
    "in bf16. The error is against float64, on long shapes over sampled rows, the same ones for all. Energy "
    "is "
    "NVML's total over two seconds of replays and more. A key block has 128 keys, or as few as make no more "
    "of "
    "them: 112 of 197. int8_uniform has scales of K by key block and of V by channel, int8_channel of K by "
    "token and of V by channel. Italics are peers.\n\n";

}  // namespace

std::string gpu_rows_table(const Json& document) {
  Table table({{"workload", Align::left},
               {"scheme", Align::left},
               {"backend", Align::left},
               {"quantisation", Align::left},
               {"ms"},
               {"TOPS"},
               {"of peak"},
               {"relative RMSE"},
               {"J a call"},
               {"W"},
               {"MHz"},
               {"", Align::left}});
  for (const Json& row : document["rows"]) {
    const std::string skipped = row.contains("skipped") ? "skipped: " + text(row, "skipped") : "";
    table.add({text(row, "workload"), text(row, "variant"), text(row, "backend"), text(row, "quantisation"),
               significant(number(&row, "ms")), tera_text(number(&row, "gops")),
               percent(number(&row, "percent_of_peak") / 100), percent(number(&row, "relative_rmse")),
               significant(number(&row, "joules_per_call")), significant(number(&row, "mean_power_w")),
               significant(number(&row, "mean_clock_mhz")), skipped});
  }
  return fmt::format("{}\n{:.0f} s on {}, driver {}.\n", table.text(), number(&document, "seconds"),
                     text(document, "gpu"), text(document, "driver"));
}

std::string gpu_shapes_table(const Json& shapes) {
  const auto tokens_of = [](const Json& row) {
    const std::string keys = row["tokens_k"].dump(), queries = row["tokens_q"].dump();
    return queries == keys ? keys : queries + " of " + keys;
  };
  Table table({{"workload", Align::left},
               {"batch"},
               {"heads"},
               {"heads of K"},
               {"tokens"},
               {"dim"},
               {"mask", Align::left},
               {"energy", Align::left}});
  for (const Json& row : shapes)
    table.add({text(row, "workload"), row["batch"].dump(), row["heads"].dump(), row["heads_kv"].dump(),
               tokens_of(row), row["head_dim"].dump(), row["causal"].get<bool>() ? "causal" : "",
               row["energy"].get<bool>() ? "measured" : ""});
  return table.text();
}

std::string gpu_section(const Json& document) {
  const GpuRun run(document);
  std::string page = fmt::format("\n## {}\n\n", text(document, "gpu")) + kGpuIntroduction;
  page += gpu_provenance(document) + "### Bars on this GPU\n\n" + gpu_bars_table(run);
  page += "\n### The papers' experiments\n\nNumbers are those of [claims.md](claims.md).\n\n" +
          gpu_papers_table(run);
  std::string details;
  for (const Group& group : kGroups) {
    std::vector<std::string> workloads;
    for (const std::string& w : run.workloads())
      if (group.holds(w)) workloads.push_back(w);
    if (workloads.empty()) continue;
    page +=
        fmt::format("\n### {}\n\nKernel:\n\n{}\nFrom bf16:\n\n{}", group.title,
                    ratios_of_group(run, workloads, "excluded"), ratios_of_group(run, workloads, "counted"));
    if (is_measured(run, workloads, "cached"))
      page += fmt::format(
          "\nWith a cache that has the other keys: as many as there are queries are appended, and then "
          "attended to with the rest, bf16 to bf16; SDPA, without a cache of its own, has nothing to "
          "append:\n\n{}",
          ratios_of_group(run, workloads, "cached"));
    for (const std::string& w : workloads)
      details += fmt::format("\n#### {} ({})\n\n{}", run.shape(w), w, gpu_shape_table(run, w));
  }
  page += "\n### Energy\n\n" + energy_table(run);
  page += "\n### By shape on this GPU\n" + details;
  page += "\n### Not measured on this GPU\n\n" + gpu_skipped_list(run);
  return page;
}

}  // namespace octet::tool
