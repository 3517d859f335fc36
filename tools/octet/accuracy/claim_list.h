// Looking measured figures up and putting them in words, for the rows of claims.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "accuracy/claims.h"
#include "accuracy/measurements.h"

namespace octet::tool {

inline constexpr const char* kProtocols = "octet accuracy --suite protocols";
inline constexpr const char* kNumerics = "claims_numerics";
inline constexpr const char* kTest = "scripts/test";

inline constexpr const char* kNotMeasured = "not measured";

/// The verdict where `holds`, else `otherwise`; what was not measured has none.
std::string judge(double figure, bool holds, const std::string& verdict, const std::string& otherwise);

/// Whether value is within a share of target.
bool near(double value, double target, double share);

/// A printed figure and ours.
struct Pair {
  std::string name;
  double ours = 0, printed = 0;
};
/// Which of them agree within `share`, in words: "half and full reproduced, QAttn corrected".
std::string agreement(const std::vector<Pair>& pairs, double share);
/// "half", "half and full", "half, full and FP8".
std::string listed(const std::vector<std::string>& names);

/// The least and the most of several figures; NaN where one of them was not measured.
struct Span {
  double least = 0, most = 0;
};

class ClaimList {
 public:
  explicit ClaimList(const Measurements& measured) : measured_(measured) {}

  const Measurements& measured() const { return measured_; }
  std::vector<Claim> take() { return std::move(all_); }

  // Figures of the part "protocols" (rmse: of its experiment with FlashAttention-3's outliers) and
  // "numerics".
  double db(const std::string& experiment, const std::string& row) const;
  double share(const std::string& experiment, const std::string& row,
               const char* figure = "relative_rmse") const;
  double rmse(const std::string& row) const;
  double numeric(const std::string& experiment, const std::string& row, const char* figure) const;

  // The same in words, with the extremes of single seeds: "32.6 dB [32.3 … 32.9]".
  std::string decibels(const std::string& experiment, const std::string& row) const;
  std::string percent(const std::string& experiment, const std::string& row, const char* figure) const;
  std::string absolute(const Place& place) const;
  std::string outlier(const char* row) const;
  /// L1 in % over the lengths 1k ... 16k of experiments "<stem>/n<keys>", and as "0.84 – 0.93 %".
  Span span_over_lengths(const std::string& part, const std::string& stem, const std::string& row) const;
  std::string over_lengths(const std::string& part, const std::string& stem, const std::string& row) const;

  void add(int number, std::string claim, std::string paper, std::string protocol, const char* command,
           std::string ours, std::string verdict);
  void open(int number, const char* claim, const char* paper, const char* waits_for);
  void push(Claim claim) { all_.push_back(std::move(claim)); }

 private:
  const Measurements& measured_;
  std::vector<Claim> all_;
};

void add_int_flash_claims(ClaimList& list);
void add_feature_claims(ClaimList& list);
void add_qflash_claims(ClaimList& list);
void add_flash3_claims(ClaimList& list);
void add_colfax_claims(ClaimList& list);
void add_table_claims(ClaimList& list);
void add_open_claims(ClaimList& list);

}  // namespace octet::tool
