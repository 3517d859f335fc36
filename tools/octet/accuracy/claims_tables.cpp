// Rows of the appendix on exponentials by table (59, 60, 62).
#include "accuracy/claim_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace octet::tool {

void add_table_claims(ClaimList& list) {
  const auto rms = [&](const char* row) {
    return fmt::format("{:.2e} [{:.2e} … {:.2e}]", list.numeric("tables", row, "rmse"),
                       list.measured().extreme({"numerics", "tables", row}, "least", "rmse"),
                       list.measured().extreme({"numerics", "tables", row}, "most", "rmse"));
  };
  const char* protocol = "delta uniform in [0, 8], 10^6 draws; RMSE";
  constexpr double kWanted = 1e-3, kPrintedLinear = 2.3e-7, kSame = .05;
  const double nine = list.numeric("tables", "direct 9", "rmse"),
               ten = list.numeric("tables", "direct 10", "rmse"),
               six = list.numeric("tables", "linear 6", "rmse"),
               quadratic = list.numeric("tables", "quadratic 5", "rmse");
  list.add(
      59, "Direct tables of 8 / 9 / 10 / 12 bits", "3e-3 / – / 7e-4 / –; \"10 to 12 bits needed\" for 1e-3",
      protocol, kNumerics,
      fmt::format("{}, {}, {}, {}; largest error at 10 bits {:.1e}", rms("direct 8"), rms("direct 9"),
                  rms("direct 10"), rms("direct 12"), list.numeric("tables", "direct 10", "max_abs_error")),
      judge(nine + ten, ten > kWanted, "reproduced",
            fmt::format("corrected: {} bits suffice for 1e-3", nine <= kWanted ? 9 : 10)));
  list.add(60, "Linear, 64 segments; 8 + 4 bits; quadratic", "2.3e-7; –; 256 base points", protocol,
           kNumerics,
           fmt::format("{}; {}; quadratic of 32 segments {}, of 256 {}", rms("linear 6"), rms("linear 8+4"),
                       rms("quadratic 5"), rms("quadratic 8")),
           judge(six + quadratic, near(six, kPrintedLinear, kSame), "reproduced",
                 fmt::format("corrected: off by {:.0f} times{}", six / kPrintedLinear,
                             quadratic <= kWanted ? "; 32 quadratic segments suffice for 1e-3" : "")));
  const auto l1 = [&](const char* experiment, const char* row) {
    return list.numeric(experiment, row, "l1");
  };
  constexpr double kLost = 5;  // times the error of rows without a tail, whatever the width
  const double normal = l1("softmax/normal", "direct 10"),
               peaky = std::min(l1("softmax/peaky", "direct 10"), l1("softmax/peaky", "direct 12"));
  list.add(
      62, "Tables inside softmax", "1.9e-3 at 10 bits (simulated)",
      "L1 of a softmax row, 4096 scores N(0, 1) or N(0, 5.3²); RMSE of int8_lut on N(0, 1), 4096 keys",
      kNumerics,
      fmt::format(
          "8 / 10 / 12 bits {:.1e} / {:.1e} / {:.1e}; peaky {:.1e} / {:.1e} / {:.1e}, range-reduced 4 bits "
          "{:.1e}; int8_lut {}, {}, {}",
          l1("softmax/normal", "direct 8"), l1("softmax/normal", "direct 10"),
          l1("softmax/normal", "direct 12"), l1("softmax/peaky", "direct 8"),
          l1("softmax/peaky", "direct 10"), l1("softmax/peaky", "direct 12"), l1("softmax/peaky", "range 4"),
          list.percent("lut/normal", "int8_lut, direct 8 bits", "relative_rmse"),
          list.percent("lut/normal", "int8_lut, direct 10 bits", "relative_rmse"),
          list.percent("lut/normal", "int8_lut, direct 12 bits", "relative_rmse")),
      judge(normal + peaky, near(normal, 1.9e-3, kSame),
            peaky > kLost * normal ? "reproduced; peaky rows lose the tail beyond 8 nats at any width"
                                   : "reproduced",
            "corrected"));
}

}  // namespace octet::tool
