// Calls on a GPU: tensors go there, outputs come back, and what lies around them is looked at.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "tests/attention/calls.h"

namespace octet::testing {

/// Why there is no GPU to test on; empty: there is one.
std::string no_device();

/// How operands reach the kernel.
enum class Operands {
  codes,  ///< quantised on the host
  plain,  ///< as numbers, f32
  bf16,   ///< as numbers, bf16, rounded where the call's are others
};

/// Runs a call with a scheme on the mma kernels. Outputs lie between margins of NaN, and in memory that holds
/// NaN: a margin that changed is an error.
Output run_on_device(const Call& call, Scheme scheme, Operands operands);

/// The same from codes, with the keys of a row cut in parts or by Hopper's kernels, whatever the call: by
/// each cut that calls of tests are too short, or too many, to take by themselves. What is read goes to the
/// device once.
class CutsOnDevice {
 public:
  CutsOnDevice(const Call& call, Scheme scheme);
  ~CutsOnDevice();
  CutsOnDevice(const CutsOnDevice&) = delete;
  CutsOnDevice& operator=(const CutsOnDevice&) = delete;

  /// Code::unsupported where the scheme has no kernels for the call.
  const Status& status() const { return status_; }
  std::size_t count() const;
  /// Whether the keys of a row are cut in ranges.
  bool has_ranges(std::size_t cut) const;
  Output run(std::size_t cut);
  /// Of what is read; of what is written each run looks at them.
  Status look_at_margins();

 private:
  struct Held;

  const Call& call_;
  const Scheme scheme_;
  std::unique_ptr<Held> held_;
  Status status_;
};

/// The schemes that have kernels: INSTANTIATE_TEST_SUITE_P(Schemes, Suite, every_scheme(), name_of_scheme).
inline auto every_scheme() {
  return ::testing::Values(Scheme::f16, Scheme::bf16, Scheme::fp8, Scheme::fp8_hybrid, Scheme::int8_full,
                           Scheme::int8_half, Scheme::int8, Scheme::int8_shift, Scheme::int8_fp8,
                           Scheme::int8_lut, Scheme::int4, Scheme::qflash, Scheme::qattn, Scheme::integer);
}
inline std::string name_of_scheme(const ::testing::TestParamInfo<Scheme>& scheme) {
  return name_of(scheme.param);
}

/// A suite of calls on a GPU; skipped, with the reason, where there is none.
class OnDevice : public ::testing::TestWithParam<Scheme> {
 protected:
  void SetUp() override {
    if (const std::string reason = no_device(); !reason.empty()) GTEST_SKIP() << reason;
  }

  /// Relative RMSE between the kernels and the reference: roundings of float sums, and of the codes of P that
  /// they decide. 0: the same bits. A short call's keys are in two parts: of P in halves a weight of the
  /// second may be rounded against another maximum than the reference's, two roundings of 11 bits, whose RMS
  /// together is below 2^-11 of the weight. Weights below one code go to nearest here, and by the place of
  /// their key there (numerics/ordered_rounding.h): 0.82 % at most in these calls, on an H200.
  double allowance() const {
    switch (GetParam()) {
      case Scheme::integer:
      case Scheme::qflash:
        return 0;
      case Scheme::f16:
      case Scheme::int8_half:
        return 0x1p-11;
      case Scheme::fp8:
        return kOfCutScores;
      case Scheme::fp8_hybrid:
        return kOfCutScoresAlone;
      case Scheme::int8_fp8:
        return kOfCutSums;
      case Scheme::int8:
      case Scheme::int8_shift:
      case Scheme::int4:
        return 1e-2;
      default:
        return kOfTies;
    }
  }
  /// Of codes of P that fall on the other side of a tie.
  static constexpr double kOfTies = 3e-3;
  /// Where the matrix unit multiplies e4m3 it cuts its sums off 13 bits below the largest product: scores are
  /// off by a thousandth or two of themselves, and of a hundred codes of P, whose step is a twelfth, one or
  /// two fall on the other side of a tie; P in halves does not, and of exact scores only sums of P V are cut.
  /// On an H200 at most 1.7, 0.064 and 0.43 %, the first of a single row, and found before fp8 had its
  /// uniform form; the second 0.115 on an H100 where scores spread over some 130 nats.
  static constexpr double kOfCutScores = 2e-2, kOfCutScoresAlone = 2e-3, kOfCutSums = 5e-3;

  /// The same of the LSE, absolutely. A row's sum of e4m3 codes has the step of one that falls on the other
  /// side of a tie: 32 of at least 448, or 16 of at least 256. Of P in halves it moves as scores do whose
  /// sums are cut: by 0.0021 of rows with scores of a few nats, and 0.032 of many, at most on an H200.
  double lse_allowance(const Output& want) const {
    if (GetParam() == Scheme::int8_fp8 || GetParam() == Scheme::fp8) return std::log1p(1.0 / 14);
    if (GetParam() == Scheme::fp8_hybrid) return 0x1p-9 * std::max(2.0, largest_size(want.lse));
    constexpr double kOfSums = 1e-4;  // where masses are weights before P's rounding
    return 2 * (allowance() == 0x1p-11 ? kOfSums : std::min(allowance(), kOfTies)) + 1e-5;
  }
};

}  // namespace octet::testing
