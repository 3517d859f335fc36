// Rows of FlashAttention-3 (47 - 51) and Colfax (54, 55).
#include "accuracy/claim_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace octet::tool {
namespace {

std::string by_dim(const ClaimList& list, const char* row) {
  std::string text;
  for (const int dim : {64, 128, 256})
    text += fmt::format("{}{:.2e}", dim == 64 ? "" : " / ",
                        list.measured().figure({"colfax", fmt::format("colfax/d{}", dim), row}, "rmse"));
  return text;
}

}  // namespace

void add_flash3_claims(ClaimList& list) {
  const char* protocol = "N(0,1) + N(0,100) Bernoulli(.001), d = 128, 8192 keys; absolute RMSE";
  constexpr double kNothing = .1, kFactor = .2;
  constexpr double kDraws = .1, kOutlierDraws = .15;  // 16 seeds of outlier data against the paper's one
  const double rotated = list.rmse("fp8, rotated"), both = list.rmse("fp8, per block, rotated"),
               block = list.rmse("fp8, per block");
  list.add(47, "Block quantisation", "9.3e-3 to 9.1e-3", protocol, kProtocols,
           fmt::format("{} to {}", list.outlier("fp8, rotated"), list.outlier("fp8, per block, rotated")),
           judge(both + rotated, near(both, rotated, kNothing), "reproduced: it buys next to nothing",
                 both < rotated ? "corrected: it buys more" : "corrected: it costs"));
  list.add(48, "Incoherent processing", "2.4e-2 to 9.1e-3 (2.6 times)", protocol, kProtocols,
           fmt::format("{} to {} ({:.1f} times)", list.outlier("fp8, per block"),
                       list.outlier("fp8, per block, rotated"), block / both),
           judge(block / both, near(block / both, 2.6, kFactor), "reproduced", "corrected"));
  const double f16 = list.rmse("f16"), standard = list.rmse("standard");
  list.add(49, "FP16 flash against standard attention", "1.9e-4 against 3.2e-4 (1.7 times)", protocol,
           kProtocols,
           fmt::format("{} against {} ({:.1f} times)", list.outlier("f16"), list.outlier("standard"),
                       standard / f16),
           agreement({{"flash", f16, 1.9e-4}, {"standard", standard, 3.2e-4}}, kDraws));
  list.add(50, "FP8 with per-tensor scales", "2.4e-2", protocol, kProtocols, list.outlier("fp8, per tensor"),
           agreement({{"FP8", list.rmse("fp8, per tensor"), 2.4e-2}}, kOutlierDraws));
  const double int8 = list.rmse("int8");
  list.add(51, "INT8 on FlashAttention-3's outliers", "below 9.1e-3", protocol, kProtocols,
           fmt::format("int8 {}, int8_shift {}, integer {}", list.outlier("int8"), list.outlier("int8_shift"),
                       list.outlier("integer")),
           judge(int8, int8 < 9.1e-3, "beaten", "not reproducible"));
}

void add_colfax_claims(ClaimList& list) {
  const char* protocol = "N(0, 1) cast without scale, 4096 keys, f16 out, d = 64 / 128 / 256; absolute RMSE";
  const char* command = "octet accuracy --suite colfax";
  constexpr double kDraws = .05;
  const auto rmse = [&](int dim, const char* row) {
    return list.measured().figure({"colfax", fmt::format("colfax/d{}", dim), row}, "rmse");
  };
  int below = 0;
  double all = 0;
  for (const auto& [dim, printed] : {std::pair{64, 8.30e-6}, {128, 1.02e-5}, {256, 1.39e-5}})
    below += rmse(dim, "fp8_hybrid") < printed, all += rmse(dim, "fp8_hybrid");
  list.add(54, "Colfax's hybrid", "8.30e-6 / 1.02e-5 / 1.39e-5", protocol, command,
           fmt::format("{}; against the uncast inputs {}", by_dim(list, "fp8_hybrid"),
                       by_dim(list, "fp8_hybrid, against uncast inputs")),
           judge(all, below == 3, "beaten: its growth with d is the tensor core's sums", "corrected"));
  std::vector<Pair> figures;
  for (const auto& [dim, f16, fp8] :
       {std::tuple{64, 7.33e-6, 6.55e-4}, {128, 7.31e-6, 6.53e-4}, {256, 7.29e-6, 6.51e-4}}) {
    figures.push_back({fmt::format("FP16 at d = {}", dim), rmse(dim, "f16"), f16});
    figures.push_back({fmt::format("FP8 at d = {}", dim), rmse(dim, "fp8"), fp8});
  }
  const double uncast = rmse(64, "fp8, against uncast inputs") / rmse(64, "fp8");
  list.add(55, "Colfax's FP16 / FP8 RMSE", "7.33e-6 / 7.31e-6 / 7.29e-6; 6.55e-4 / 6.53e-4 / 6.51e-4",
           protocol, command,
           fmt::format("{}; {}; FP8 against the uncast inputs {}", by_dim(list, "f16"), by_dim(list, "fp8"),
                       by_dim(list, "fp8, against uncast inputs")),
           judge(uncast, true,
                 fmt::format("{}; FP8 against real inputs {:.1f} times as large", agreement(figures, kDraws),
                             uncast),
                 ""));
}

}  // namespace octet::tool
