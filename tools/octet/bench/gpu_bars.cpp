#include "bench/gpu_bars.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "common/format.h"

namespace octet::tool {
namespace {

/// The worst of a figure over workloads, and where it is.
struct Worst {
  double value = std::nan("");
  std::string where;
};
/// Workloads without the figure are left out, but all of them together make none: a bar over seven shapes is
/// not held by six.
Worst worst_of(const std::vector<std::string>& workloads, Side side,
               const std::function<double(const std::string&)>& figure) {
  Worst worst;
  for (const std::string& w : workloads) {
    const double value = figure(w);
    if (!std::isfinite(value)) return {};
    if (std::isnan(worst.value) || (side == Side::at_least ? value < worst.value : value > worst.value))
      worst = {value, w};
  }
  return worst;
}

std::string at(const Worst& worst) {
  return worst.where.empty() ? "" : fmt::format(" (nearest: {})", worst.where);
}

CpuBar ratio_of(const std::string& what, double threshold, const Worst& worst) {
  return {what + at(worst), fmt::format("≥ {} ×", threshold),
          std::isfinite(worst.value) ? significant(worst.value) + " ×" : kNoFigure,
          verdict_of(worst.value, threshold, Side::at_least)};
}

double speed_of(const Json* row) { return number(row, "gops"); }

std::vector<std::string> heads(const char* suffix, int first, int last) {
  std::vector<std::string> names;
  for (int i = first; i <= last; ++i) names.push_back(fmt::format("A{}-{}", i, suffix));
  return names;
}

void add_vit(const GpuRun& run, std::vector<CpuBar>& bars) {
  const auto ours = [&](const std::string& scheme, const std::string& w) {
    return scheme.empty() ? run.fastest_octet(w) : run.find(w, scheme);
  };
  for (const std::string scheme : {"", "integer"}) {
    const std::string name = scheme.empty() ? "the fastest scheme" : scheme;
    for (const auto& [batch, threshold] : {std::pair{"b1", 1.0}, {"b8", 1.3}}) {
      bars.push_back(ratio_of(fmt::format("A1 to A7, {}: {} over the best SDPA", batch, name), threshold,
                              worst_of(heads(batch, 1, 7), Side::at_least, [&](const std::string& w) {
                                return speed_of(ours(scheme, w)) / speed_of(run.best_sdpa(w));
                              })));
    }
    for (const auto& [first, last, most] : {std::tuple{1, 3, 8.0}, {4, 7, 6.0}}) {
      const Worst worst = worst_of(heads("b1", first, last), Side::at_most,
                                   [&](const std::string& w) { return 1e3 * number(ours(scheme, w), "ms"); });
      bars.push_back({fmt::format("A{} to A{}, b1: {}{}", first, last, name, at(worst)),
                      fmt::format("≤ {} µs", most),
                      std::isfinite(worst.value) ? significant(worst.value) + " µs" : kNoFigure,
                      verdict_of(worst.value, most, Side::at_most)});
    }
  }
}

void add_prefill(const GpuRun& run, std::vector<CpuBar>& bars) {
  const auto over = [&](const char* ours, const char* theirs) {
    return [&run, ours, theirs](const std::string& w) {
      return speed_of(run.find(w, ours)) / speed_of(run.find(w, theirs));
    };
  };
  constexpr double kPublished = 0.97;
  bars.push_back(ratio_of("int8_full over SDPA cuDNN", kPublished,
                          worst_of({"h32-16k"}, Side::at_least, over("int8_full", kSdpaCudnn))));
  const std::vector<std::string> protocol{"h32-1k", "h32-2k", "h32-4k", "h32-8k", "h32-16k"};
  for (const char* scheme : {"int8_full", "int8", "int8_channel", "int8_half"})
    bars.push_back(ratio_of(fmt::format("h32, 1k to 16k: {} over own f16", scheme), 1,
                            worst_of(protocol, Side::at_least, over(scheme, "f16"))));
  for (const int dim : {64, 128, 256}) {
    std::vector<std::string> lengths;
    for (const char* n : {"4k", "8k", "16k"}) lengths.push_back(fmt::format("d{}-{}", dim, n));
    for (const std::string ours : {"int8", "int8_channel", "int8_uniform"}) {
      bars.push_back(ratio_of(fmt::format("d{}, 4k to 16k: {} over comfy-kitchen's kernel", dim, ours), 1.15,
                              worst_of(lengths, Side::at_least, over(ours.c_str(), kComfyKitchen))));
      const Worst worst = worst_of(lengths, Side::at_most, [&](const std::string& w) {
        return number(run.find(w, ours), "relative_rmse") /
               number(run.find(w, kComfyKitchen), "relative_rmse");
      });
      bars.push_back({fmt::format("d{}, 4k to 16k: {}'s error over comfy-kitchen's{}", dim, ours, at(worst)),
                      "≤ 1 ×", std::isfinite(worst.value) ? significant(worst.value) + " ×" : kNoFigure,
                      verdict_of(worst.value, 1, Side::at_most)});
    }
  }
}

/// Integer schemes: both products on codes.
void add_energy(const GpuRun& run, std::vector<CpuBar>& bars) {
  constexpr const char* kWorkload = "A2-b8";
  double least = std::nan("");
  std::string which;
  for (const char* scheme : {"int8", "int8_uniform", "int8_full", "integer", "qflash"}) {
    const double joules = number(run.find(kWorkload, scheme), "joules_per_call");
    if (!std::isfinite(joules) || joules >= least) continue;
    least = joules, which = fmt::format(" (best: {})", scheme);
  }
  const double share = least / number(run.find(kWorkload, kSdpaFlash), "joules_per_call");
  bars.push_back({fmt::format("{}: energy a call over SDPA flash's{}", kWorkload, which), "≤ 75 %",
                  percent(share), verdict_of(share, 0.75, Side::at_most)});
}

}  // namespace

std::vector<CpuBar> gpu_bars_of(const GpuRun& run) {
  std::vector<CpuBar> bars;
  add_vit(run, bars);
  add_prefill(run, bars);
  add_energy(run, bars);
  return bars;
}

}  // namespace octet::tool
