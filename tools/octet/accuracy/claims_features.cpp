// Rows about what the published repositories lack: causal masks, odd lengths, GQA and cross lengths (14, 15).
#include <fmt/format.h>

#include <cmath>

#include "accuracy/claim_list.h"

namespace octet::tool {
namespace {

/// An error with a feature may be this many times the error of the same scheme without it: a lost or doubled
/// block, or a mask that is one key off, costs more in rows as concentrated as those of U(-4, 4).
constexpr double kSameCost = 1.5;

/// A feature's experiment and the one it is held against.
struct Feature {
  const char* name;
  const char* with;
  const char* without;
};

/// The scheme that a feature costs most.
struct Cost {
  double ratio = 0;
  std::string scheme;
};

Cost cost_of(const Measurements& m, const Feature& feature) {
  Cost worst;
  const Json* experiment = m.experiment("features", feature.with);
  if (!experiment) return {std::nan(""), ""};
  for (const Json& row : experiment->at("rows")) {
    if (row.contains("refused")) continue;
    const auto name = row.at("name").get<std::string>();
    const double ratio = m.figure({"features", feature.with, name}, "relative_rmse") /
                         m.figure({"features", feature.without, name}, "relative_rmse");
    if (std::isnan(worst.ratio)) continue;
    if (!(ratio <= worst.ratio)) worst = {ratio, name};
  }
  return worst;
}

void add_row(ClaimList& list, int number, const char* claim, const char* paper,
             const std::vector<Feature>& features, const char* verdict) {
  std::vector<std::string> ours, wrong;
  double all = 0;
  for (const Feature& feature : features) {
    const Cost cost = cost_of(list.measured(), feature);
    all += cost.ratio;
    ours.push_back(fmt::format("{} {:.2f} ({})", feature.name, cost.ratio, cost.scheme));
    if (!(cost.ratio <= kSameCost)) wrong.push_back(fmt::format("{} of {}", feature.name, cost.scheme));
  }
  list.add(number, claim, paper,
           "U(-4, 4), d = 64: RMSE with the feature over RMSE without, at whole key blocks",
           "octet accuracy --suite features",
           fmt::format("largest ratio of all schemes: {}; tests Grid.EveryFeatureMatchesExactAttention and "
                       "Grid.EveryLengthFromOneTo300",
                       fmt::join(ours, ", ")),
           judge(all, wrong.empty(), verdict, "not reproducible: " + listed(wrong)));
}

}  // namespace

void add_feature_claims(ClaimList& list) {
  add_row(list, 14, "Causal mask", "the repository's full INT8 is wrong",
          {{"197 tokens", "features/causal", "features/whole256"}}, "corrected");
  add_row(list, 15, "Odd lengths, GQA, cross lengths", "none in the repositories",
          {{"1 token", "features/n1", "features/whole128"},
           {"49 tokens", "features/n49", "features/whole128"},
           {"197 keys", "features/n197", "features/whole256"},
           {"8191 keys", "features/n8191", "features/whole8192"},
           {"GQA", "features/gqa", "features/whole256"}},
          "beaten");
}

}  // namespace octet::tool
