#include "accuracy/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "accuracy/distributions.h"
#include "accuracy/published.h"
#include "common/format.h"

namespace octet::tool {
namespace {

class Bars {
 public:
  explicit Bars(const Measurements& measured) : m_(measured) {}

  std::vector<Bar> take() {
    qflash(), int8(), integer(), others();
    return std::move(bars_);
  }

 private:
  double db(const std::string& experiment, const std::string& row) const {
    return m_.figure({"protocols", experiment, row}, "sqnr_db");
  }
  double rmse_percent(const std::string& part, const std::string& experiment, const std::string& row) const {
    return 100 * m_.figure({part, experiment, row}, "relative_rmse");
  }
  void add(std::string what, std::string threshold, std::string measured, double worst, bool passes) {
    judge(std::move(what), std::move(threshold), std::move(measured), worst,
          passes ? Verdict::passes : Verdict::fails);
  }
  void judge(std::string what, std::string threshold, std::string measured, double worst, Verdict verdict) {
    if (!std::isfinite(worst)) verdict = Verdict::open, measured = kNoFigure;
    bars_.push_back({std::move(what), std::move(threshold), std::move(measured), verdict, worst});
  }
  void at_least(std::string what, double value, double threshold, const char* unit) {
    add(std::move(what), fmt::format("≥ {} {}", threshold, unit), fmt::format("{:.2f} {}", value, unit),
        value, value >= threshold);
  }
  void within(std::string what, double value, double low, double high, const char* unit) {
    add(std::move(what), fmt::format("{} – {} {}", low, high, unit), fmt::format("{:.4g} {}", value, unit),
        value, value >= low && value <= high);
  }

  void qflash() {
    within("1: qflash, A2", db("qflash/a2", "qflash"), 32.0, 32.5, "dB");
    within("1: qflash, A7", db("qflash/a7", "qflash"), 32.8, 33.5, "dB");
  }

  /// The largest ratio of a row to what it is held against, over the published distributions.
  struct Worst {
    double ratio = 0;
    std::string where;
    void add(double r, const std::string& place) {
      if (std::isnan(ratio)) return;  // one figure that is missing leaves the bar open
      if (std::isnan(r) || r > ratio) ratio = r, where = place;
    }
  };

  void int8() {
    Worst tight, loose, comfy, shift;
    for (const Published& p : kPublished)
      for (std::size_t i = 0; i < kPublishedDims.size(); ++i) {
        const std::string place = fmt::format("{}/d{}", p.distribution, kPublishedDims[i]);
        const double int8 = rmse_percent("distributions", place, "int8");
        (p.tolerance < 1.1 ? tight : loose).add(int8 / p.int8[i], place);
        comfy.add(int8 / p.comfy[i], place);
        shift.add(rmse_percent("distributions", place, "int8_shift") / p.int8_shift[i], place);
      }
    const auto ratio = [&](const char* what, const Worst& worst, double limit) {
      add(what, fmt::format("≤ {} times", limit), fmt::format("{:.3f} times ({})", worst.ratio, worst.where),
          worst.ratio, worst.ratio <= limit);
    };
    ratio("2: int8 against its design on normal, sharp, biasK, uniform", tight, 1.07);
    ratio("2: int8 against its design elsewhere", loose, 1.15);
    ratio("2: int8 against comfy-kitchen's INT8 (quoted)", comfy, 1);
    ratio("2: int8_shift against its design", shift, kShiftTolerance);
    for (const auto& [dim, limit] : {std::pair{64, 1.40}, {128, 1.45}, {256, 1.52}}) {
      Worst worst;
      for (const int keys : {1024, 8192, 32768, 131072})
        worst.add(rmse_percent("protocols", fmt::format("int8/d{}/n{}", dim, keys), "int8"),
                  fmt::format("{} keys", keys));
      add(fmt::format("2: int8 on N(0, 1), d = {}, 1k to 128k keys", dim), fmt::format("≤ {} %", limit),
          fmt::format("{:.3f} % ({})", worst.ratio, worst.where), worst.ratio, worst.ratio <= limit);
    }
    for (const char* rival : {"int8_fp8", "fp8", "int8_full"}) below(rival);
  }

  /// int8 against one peer: on what its design names and the capture, which is the bar, and on four extremes
  /// that the design does not name.
  void below(const std::string& rival) {
    Worst designed, beyond;
    for (int kind = 0; kind < kDistributions; ++kind)
      for (const int dim : kPublishedDims) {
        const auto distribution = static_cast<Distribution>(kind);
        const std::string place = fmt::format("{}/d{}", octet::tool::name_of(distribution), dim);
        const double ratio =
            rmse_percent("distributions", place, "int8") / rmse_percent("distributions", place, rival);
        (distribution >= Distribution::u4 ? beyond : designed).add(ratio, place);
      }
    designed.add(rmse_percent("capture", "capture", "int8") / rmse_percent("capture", "capture", rival),
                 "capture");
    const auto add_row = [&](const char* what, const char* where, const Worst& worst, Verdict met,
                             Verdict missed) {
      judge(fmt::format("{}: int8 below {} on {}", what, rival, where), "< 1 times",
            fmt::format("{:.3f} times ({})", worst.ratio, worst.where), worst.ratio,
            worst.ratio < 1 ? met : missed);
    };
    add_row("2", "normal … uniform and the capture", designed, Verdict::passes, Verdict::fails);
    add_row("beyond bar 2", "u4, tiny, huge, needle", beyond, Verdict::beyond_met, Verdict::beyond_missed);
  }

  void integer() {
    at_least("3: integer, A2, output codes included", db("qflash/a2", "integer"), 35.3, "dB");
    at_least("3: integer, A7", db("qflash/a7", "integer"), 36.4, "dB");
    for (const int keys : {197, 1024, 4096, 16384, 65536})
      at_least(fmt::format("3: integer, N(0, 1), d = 64, {} keys", keys),
               db(fmt::format("qflash/normal/n{}", keys), "integer"), 33.4, "dB");
    double least = std::numeric_limits<double>::infinity();
    std::string where;
    for (const Published& p : kPublished)
      for (const int dim : kPublishedDims) {
        const std::string place = fmt::format("{}/d{}", p.distribution, dim);
        const double x = m_.figure({"distributions", place, "integer"}, "sqnr_db");
        if (std::isnan(least)) continue;  // as above
        if (!(x >= least)) least = x, where = place;
      }
    add("3: integer on every other distribution", "≥ 28.8 dB", fmt::format("{:.2f} dB ({})", least, where),
        least, least >= 28.8);
    double outside = 0;
    for (int exponent = -3; exponent <= 5; ++exponent)
      outside +=
          m_.figure({"robustness", fmt::format("robustness/1e{}", exponent), "integer"}, "seeds_outside");
    add("3: integer is a weighted mean for every product of largest q and k from 1e-3 to 1e5",
        "0 seeds outside", fmt::format("{} of 144 seeds", outside), outside, outside == 0);
  }

  void others() {
    within("4: int8_full, A2", db("qflash/a2", "int8_full"), 36.6, 37.2, "dB");
    within("4: int8_full, A7", db("qflash/a7", "int8_full"), 37.5, 38.1, "dB");
    within("4: int8_half, A2", db("qflash/a2", "int8_half"), 37.9, 38.5, "dB");
    within("4: int8_half, A7", db("qflash/a7", "int8_half"), 38.8, 39.4, "dB");
    const double plain = m_.figure({"protocols", "fa3/outlier", "fp8"}, "rmse");
    const double rotated = m_.figure({"protocols", "fa3/outlier", "fp8, rotated"}, "rmse");
    add("4: fp8 rotated on FlashAttention-3's outliers", "≤ 9.6e-3 RMSE", fmt::format("{:.3g}", rotated),
        rotated, rotated <= 9.6e-3);
    add("4: fp8 unrotated against rotated there", "≥ 2.2 times", fmt::format("{:.2f} times", plain / rotated),
        plain / rotated, plain >= 2.2 * rotated);
    for (const int dim : {64, 128, 256}) {
      const std::string place = fmt::format("colfax/d{}", dim);
      within(fmt::format("4: Colfax FP16, d = {}", dim), 1e6 * m_.figure({"colfax", place, "f16"}, "rmse"),
             6.935, 7.665, "1e-6");
      within(fmt::format("4: Colfax FP8, d = {}", dim), 1e4 * m_.figure({"colfax", place, "fp8"}, "rmse"),
             6.175, 6.825, "1e-4");
    }
  }

  const Measurements& m_;
  std::vector<Bar> bars_;
};

}  // namespace

std::vector<Bar> bars_of(const Measurements& measured) { return Bars(measured).take(); }

std::string verdict_text(const Bar& bar) {
  switch (bar.verdict) {
    case Verdict::passes:
      return "passes";
    case Verdict::fails:
      return "**fails**";
    case Verdict::beyond_met:
      return "beyond";
    case Verdict::beyond_missed:
      return fmt::format("beyond, {:.2f} times", bar.worst);
    default:
      return "not measured";
  }
}

}  // namespace octet::tool
