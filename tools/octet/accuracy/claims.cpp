#include "accuracy/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "accuracy/claim_list.h"

namespace octet::tool {

std::string judge(double figure, bool holds, const std::string& verdict, const std::string& otherwise) {
  if (!std::isfinite(figure)) return kNotMeasured;
  return holds ? verdict : otherwise;
}

bool near(double value, double target, double share) { return std::fabs(value / target - 1) <= share; }

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

std::string agreement(const std::vector<Pair>& pairs, double share) {
  std::vector<std::string> agree, differ;
  for (const Pair& pair : pairs) {
    if (!std::isfinite(pair.ours)) return kNotMeasured;
    (near(pair.ours, pair.printed, share) ? agree : differ).push_back(pair.name);
  }
  if (differ.empty()) return "reproduced";
  if (agree.empty()) return "corrected";
  return listed(agree) + " reproduced, " + listed(differ) + " corrected";
}

double ClaimList::db(const std::string& experiment, const std::string& row) const {
  return measured_.figure({"protocols", experiment, row}, "sqnr_db");
}
double ClaimList::share(const std::string& experiment, const std::string& row, const char* figure) const {
  return measured_.figure({"protocols", experiment, row}, figure);
}
double ClaimList::rmse(const std::string& row) const { return share("fa3/outlier", row, "rmse"); }
double ClaimList::numeric(const std::string& experiment, const std::string& row, const char* figure) const {
  return measured_.figure({"numerics", experiment, row}, figure);
}
std::string ClaimList::decibels(const std::string& experiment, const std::string& row) const {
  const Place place{"protocols", experiment, row};
  return fmt::format("{:.1f} dB [{:.1f} … {:.1f}]", measured_.figure(place, "sqnr_db"),
                     measured_.extreme(place, "least", "sqnr_db"),
                     measured_.extreme(place, "most", "sqnr_db"));
}
std::string ClaimList::percent(const std::string& experiment, const std::string& row,
                               const char* figure) const {
  const Place place{"protocols", experiment, row};
  return fmt::format("{:.3g} % [{:.3g} … {:.3g}]", 100 * measured_.figure(place, figure),
                     100 * measured_.extreme(place, "least", figure),
                     100 * measured_.extreme(place, "most", figure));
}
std::string ClaimList::absolute(const Place& place) const {
  return fmt::format("{:.2e} [{:.2e} … {:.2e}]", measured_.figure(place, "rmse"),
                     measured_.extreme(place, "least", "rmse"), measured_.extreme(place, "most", "rmse"));
}
std::string ClaimList::outlier(const char* row) const { return absolute({"protocols", "fa3/outlier", row}); }
Span ClaimList::span_over_lengths(const std::string& part, const std::string& stem,
                                  const std::string& row) const {
  Span span{INFINITY, -INFINITY};
  for (int keys = 1024; keys <= 16384; keys *= 2) {
    const double x = 100 * measured_.figure({part, fmt::format("{}/n{}", stem, keys), row}, "relative_l1");
    if (std::isnan(x)) return {x, x};
    span.least = std::min(span.least, x), span.most = std::max(span.most, x);
  }
  return span;
}
std::string ClaimList::over_lengths(const std::string& part, const std::string& stem,
                                    const std::string& row) const {
  const Span span = span_over_lengths(part, stem, row);
  return fmt::format("{:.3g} – {:.3g} %", span.least, span.most);
}

void ClaimList::add(int number, std::string claim, std::string paper, std::string protocol,
                    const char* command, std::string ours, std::string verdict) {
  all_.push_back({number, std::move(claim), std::move(paper), std::move(protocol), command, std::move(ours),
                  std::move(verdict), true});
}
void ClaimList::open(int number, const char* claim, const char* paper, const char* waits_for) {
  all_.push_back({number, claim, paper, "", waits_for, "", "open", false});
}

std::vector<Claim> claims_of(const Measurements& measured) {
  ClaimList list(measured);
  add_int_flash_claims(list), add_feature_claims(list), add_qflash_claims(list), add_flash3_claims(list),
      add_colfax_claims(list);
  add_table_claims(list), add_open_claims(list);
  std::vector<Claim> all = list.take();
  std::sort(all.begin(), all.end(), [](const Claim& a, const Claim& b) { return a.number < b.number; });
  return all;
}

}  // namespace octet::tool
