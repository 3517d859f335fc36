// The errors of an integer exponential, measured over every argument that a call can have: they depend on the
// scales, and jump where a scheme's integers run out, so no constant describes them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "call/problem.h"
#include "numerics/bound.h"

namespace octet::ref {

using namespace call;

/// weight(x) against 2^(-D x) for the distances x = 0, 1, ... of integer scores.
struct ExponentialSurvey {
  /// Errors are counted as factors down to an eighth, and as steps below.
  static constexpr double kFactorOctaves = 3;
  /// From here on a weight counts as a step whatever it is.
  static constexpr double kNegligibleOctaves = 30;
  /// A survey of more arguments would cost more than the attention; then there is no bound.
  static constexpr double kMostArguments = 4e6;

  double low = 0, high = 0;  ///< log(weight) + D x ln 2, down to an eighth
  double step = 0;           ///< largest error of a weight beside such a factor, relative to 1

  double half_width() const { return (high - low) / 2; }
  /// The mass that `keys` weights move by their steps, relative to the sum.
  double moved(double keys, double further_step = 0) const {
    return keys * (step + further_step) * std::exp(-low);
  }

  /// weight: of x, relative to that of 0. octaves: D. reach: the largest x.
  template <class Weight>
  static ExponentialSurvey of(const Weight& weight, double octaves, double reach) {
    ExponentialSurvey s;
    if (reach * octaves > kNegligibleOctaves) {  // farther weights are sampled by the first of them
      reach = std::ceil(kNegligibleOctaves / octaves);
      s.step = 2 * std::exp2(-kNegligibleOctaves);
    }
    if (!(reach <= kMostArguments)) return {0, 0, kUnbounded};
    const auto last = static_cast<std::int64_t>(reach);
    for (std::int64_t x = 0; x <= last && static_cast<double>(x) * octaves <= kFactorOctaves; ++x) {
      const double error = std::log(weight(x)) + static_cast<double>(x) * octaves * kLn2F64;
      s.low = std::min(s.low, error), s.high = std::max(s.high, error);
    }
    for (std::int64_t x = 0; x <= last; ++x) {
      const double exact = std::exp2(-static_cast<double>(x) * octaves), w = weight(x);
      s.step = std::max({s.step, exact * std::exp(s.low) - w, w - exact * std::exp(s.high)});
    }
    return s;
  }

 private:
  static constexpr double kLn2F64 = 0.693147180559945309;
};

/// No |q . k| of the call's codes is larger (Cauchy-Schwarz).
double largest_product(const Problem& problem);

}  // namespace octet::ref
