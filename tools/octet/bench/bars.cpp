#include "bench/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/format.h"

namespace octet::tool {
namespace {

constexpr const char* kInt8 = "int8_kblock";
constexpr const char* kCached = "int8";  // its tokens have scales of their own, so a cache can keep them

enum class Cpu { zen5, rapids, other };
Cpu cpu_of(const StoredRun& run) {
  const auto family = number(&run.document(), "cpu_family"), model = number(&run.document(), "cpu_model");
  constexpr double kZen5 = 26, kIntel = 6, kSapphire = 143, kEmerald = 207;
  if (family == kZen5) return Cpu::zen5;
  return family == kIntel && (model == kSapphire || model == kEmerald) ? Cpu::rapids : Cpu::other;
}

/// What int8 runs on: "avx512_vnni", "avx2", ...
std::string backend_of(const StoredRun& run) {
  for (const Json& row : run.rows())
    if (text(row, "variant") == kInt8 && !row.contains("skipped")) return text(row, "backend");
  return {};
}

CpuBar share_bar(const std::string& what, double threshold, double measured) {
  return {what, fmt::format("≥ {:.0f} %", threshold), percent(measured / 100),
          verdict_of(measured, threshold, Side::at_least)};
}
CpuBar ratio_bar(const std::string& what, double threshold, double measured) {
  return {what, fmt::format("≥ {} ×", threshold),
          std::isfinite(measured) ? significant(measured) + " ×" : kNoFigure,
          verdict_of(measured, threshold, Side::at_least)};
}

double share(const StoredRun& run, const Wanted& wanted) {
  return number(run.best_without_quantisation(wanted), "percent_of_peak");
}
double speed(const StoredRun& run, const Wanted& wanted) {
  return number(run.best_without_quantisation(wanted), "gops");
}

void add_shares(const StoredRun& run, std::vector<CpuBar>& bars) {
  const Cpu cpu = cpu_of(run);
  if (cpu == Cpu::other || !backend_of(run).starts_with("avx512")) return;
  const bool zen = cpu == Cpu::zen5;
  const double integer_below = zen ? 7 : 10;  // points
  for (const char* n : {"1k", "4k"}) {
    for (const int dim : {64, 128}) {
      const std::string w = fmt::format("{}-d{}", n, dim);
      const double best = dim == 64 ? (zen ? 75 : 72) : (zen ? 82 : 79);
      const double at_128 = dim == 64 ? (zen ? 68 : 61) : (zen ? 76 : 70);
      bars.push_back(share_bar(w + ": int8, best key block", best, share(run, {w, kInt8})));
      bars.push_back(share_bar(w + ": int8, key block 128", at_128, share(run, {w, kInt8, 1, {}, 128})));
      bars.push_back(
          share_bar(w + ": integer, best key block", best - integer_below, share(run, {w, "integer"})));
      bars.push_back(share_bar(w + ": integer, key block 128", at_128 - integer_below,
                               share(run, {w, "integer", 1, {}, 128})));
    }
  }
  const double short_rows = zen ? 62 : 59;
  bars.push_back(share_bar("vit-b: int8", short_rows, share(run, {"vit-b", kInt8})));
  bars.push_back(share_bar("vit-b: integer", short_rows - integer_below, share(run, {"vit-b", "integer"})));
}

void add_avx2(const StoredRun& run, std::vector<CpuBar>& bars) {
  if (backend_of(run) != "avx2") return;
  constexpr double kIntel = 6;
  const bool intel = number(&run.document(), "cpu_family") == kIntel;
  for (const int dim : {64, 128}) {
    const std::string w = fmt::format("1k-d{}", dim);
    const double threshold = dim == 64 ? (intel ? 1.25 : 1.5) : (intel ? 1.35 : 1.6);
    bars.push_back(ratio_bar(w + ": AVX2 int8 over own AVX2 f32", threshold,
                             speed(run, {w, kInt8}) / speed(run, {w, "f32"})));
  }
}

/// Points of the peak that making the codes costs.
void add_quantisation(const StoredRun& run, std::vector<CpuBar>& bars) {
  for (const auto& [workload, most] : {std::pair{"1k-d64", 5.0}, {"1k-d128", 5.0}, {"vit-b", 10.0}}) {
    const Json* given = run.best({workload, kInt8, 1, "excluded"});
    const Json* counted = run.best({workload, kInt8, 1, "counted"});
    const double points = number(given, "percent_of_peak") - number(counted, "percent_of_peak");
    bars.push_back({fmt::format("{}: quantisation costs", workload), fmt::format("≤ {:.0f} points", most),
                    std::isfinite(points) ? fmt::format("{:.1f} points", points) : kNoFigure,
                    verdict_of(points, most, Side::at_most)});
  }
}

void add_ratios(const StoredRun& run, std::vector<CpuBar>& bars) {
  if (backend_of(run) == "avx2") return;
  for (const char* w : {"1k-d64", "1k-d128", "4k-d64", "4k-d128"}) {
    const double ours = speed(run, {w, kInt8});
    const double half = std::fmax(speed(run, {w, "bf16"}), speed(run, {w, "f16"}));
    bars.push_back(ratio_bar(fmt::format("{}: int8 over own f32", w), 3.2, ours / speed(run, {w, "f32"})));
    bars.push_back(share_bar(fmt::format("{}: own f32 of its peak", w), 80, share(run, {w, "f32"})));
    bars.push_back(ratio_bar(fmt::format("{}: int8 over own best 16-bit", w), 1.6, ours / half));
    bars.push_back(ratio_bar(fmt::format("{}: int8 over PyTorch f32", w), 3.8,
                             ours / speed(run, {w, "PyTorch SDPA f32"})));
    const double over_bf16 = backend_of(run).starts_with("amx") ? 1 : 5;  // PyTorch takes the tiles too
    bars.push_back(ratio_bar(fmt::format("{}: int8 over PyTorch bf16", w), over_bf16,
                             ours / speed(run, {w, "PyTorch SDPA bf16"})));
  }
  bars.push_back(ratio_bar("vit-b: int8 over own f32", 2.8,
                           speed(run, {"vit-b", kInt8}) / speed(run, {"vit-b", "f32"})));
}

/// Keys of decode lie in a cache, which has no scale a block.
const char* int8_of(const std::string& workload) { return workload.starts_with("decode") ? kCached : kInt8; }

/// The nearest of all peers, shape by shape.
void add_peers(const StoredRun& run, std::vector<CpuBar>& bars) {
  double least = std::nan("");
  std::string where;
  for (const std::string& w : run.names("workload", StoredRun::Side::octet)) {
    for (const std::string& peer : run.names("variant", StoredRun::Side::peer, w)) {
      const double ratio = speed(run, {w, int8_of(w)}) / speed(run, {w, peer});
      if (!std::isfinite(ratio) || !(std::isnan(least) || ratio < least)) continue;
      least = ratio, where = fmt::format(" (nearest: {}, {})", peer, w);
    }
  }
  bars.push_back(ratio_bar("int8 over every peer on every shape" + where, 1, least));
}

void add_threads(const StoredRun& run, std::vector<CpuBar>& bars) {
  if (run.threads() == 2) {
    for (const char* w : {"1k-d64", "4k-d64", "1k-d128", "4k-d128"}) {
      const double threshold = std::string(w).ends_with("d64") ? 1.85 : 1.7;
      const Json* two = run.best_without_quantisation({w, kInt8, 2});
      const auto block = two ? (*two)["key_block"].get<std::int64_t>() : 0;
      bars.push_back(ratio_bar(fmt::format("{}: two threads over one", w), threshold,
                               number(two, "gops") / speed(run, {w, kInt8, 1, {}, block})));
    }
  }
  constexpr std::int64_t kBusy = 2;
  for (const char* w : {"vit-b", "1k-d64"}) {
    const double ratio = number(run.best({w, kInt8, run.threads(), {}, 0, kBusy}), "ms") /
                         number(run.best({w, kInt8, 1, {}, 0, kBusy}), "ms");
    bars.push_back({fmt::format("{}: beside two busy processes, time over one thread's", w), "≤ 1.2 ×",
                    std::isfinite(ratio) ? significant(ratio) + " ×" : kNoFigure,
                    verdict_of(ratio, 1.2, Side::at_most)});
  }
}

void add_decode(const StoredRun& run, std::vector<CpuBar>& bars) {
  for (const char* w : {"decode-1-gqa", "decode-1-mha"}) {
    const double one = number(run.best_without_quantisation({w, kCached}), "percent_of_bandwidth");
    const double all =
        number(run.best_without_quantisation({w, kCached, run.threads()}), "percent_of_bandwidth");
    bars.push_back(share_bar(fmt::format("{}: int8 of the read bandwidth, 1 thread", w), 88, one));
    if (run.threads() > 1)
      bars.push_back(share_bar(fmt::format("{}: the same, {} threads", w, run.threads()), 88, all));
  }
}

}  // namespace

std::string verdict_of(double measured, double threshold, Side side) {
  if (!std::isfinite(measured)) return "open";
  return (side == Side::at_least ? measured >= threshold : measured <= threshold) ? "holds" : "**fails**";
}

std::vector<CpuBar> cpu_bars_of(const StoredRun& run) {
  std::vector<CpuBar> bars;
  add_shares(run, bars);
  add_avx2(run, bars);
  add_quantisation(run, bars);
  add_ratios(run, bars);
  add_peers(run, bars);
  add_threads(run, bars);
  add_decode(run, bars);
  return bars;
}

}  // namespace octet::tool
