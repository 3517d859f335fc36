#include "ref/bound_qflash.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lanes/scalar.h"
#include "numerics/qflash.h"
#include "ref/attend.h"
#include "ref/bound_survey.h"

namespace octet::ref {
namespace {

constexpr double kFactorOctaves = 3;       // errors are counted as factors down to here, as steps below
constexpr double kNegligibleOctaves = 30;  // from here on only the sign of a weight matters

/// The largest score in units of an accumulator, a bias included.
double largest_score(const Problem& problem, double octaves) {
  const bool biased = problem.desc.bias == AttentionDesc::Bias::additive && octaves > 0;
  const double bias =
      biased ? -double{QFlashScheme<ScalarLane>::kHidingBias} * std::numbers::log2e / octaves : 0;
  return largest_product(problem) + bias + 1;
}

/// How far x lies outside [low, high].
double outside(double x, double low, double high) { return std::max({low - x, x - high, 0.0}); }

}  // namespace

QFlashSurvey QFlashSurvey::of(const Problem& problem) {
  using Scheme = QFlashScheme<ScalarLane>;
  const Prepare input = prepare_input(problem, nullptr);
  const Scheme scheme = Scheme::prepare(input);
  QFlashSurvey s;
  s.octaves =
      double{input.softmax_scale} * std::numbers::log2e * double{input.q_scale} * double{input.k_scale};
  s.reach = std::min(largest_score(problem, s.octaves), 0x1p20);
  const auto one = static_cast<double>(scheme.constants.exp.one);
  s.release = std::fabs(scheme.constants.release * one * 0x1p-30 - 1);

  const auto farthest = static_cast<std::int32_t>(std::max(2 * s.reach, s.reach + 0x1p20));
  const auto far = static_cast<std::int32_t>(std::max(0x1p20 - s.reach, 0.0));
  const Scheme::Step at_zero{0, 0, 1};
  s.unit = scheme.code(scheme.weight(0, at_zero));
  s.sound = s.unit > 0 && s.reach < 0x1p20;
  for (int pass = 0; pass < 2 && s.sound; ++pass) {  // the factors first, then what they leave
    const double octaves = pass == 0 ? kFactorOctaves : kNegligibleOctaves;
    for (std::int32_t x = 0; x <= farthest; ++x) {
      const double down = x * s.octaves;
      if (pass == 0 && down > octaves) break;
      const std::int32_t weight = scheme.weight(-x, at_zero), code = scheme.code(weight);
      if (weight < 0 || code < 0 || (x >= far && weight != 0)) s.sound = false;
      if (down > octaves) {
        s.code_step = std::max(s.code_step, double(code) + 127 * std::exp2(-octaves));
        s.decay_step = std::max(s.decay_step, weight / one + std::exp2(-octaves));
        continue;
      }
      const double exact = std::exp2(-down), relative = weight / one;
      if (pass == 0) {
        const double error = std::log(relative / exact);
        s.low = std::min(s.low, error), s.high = std::max(s.high, error);
      } else {
        const double least = exact * std::exp(s.low), most = exact * std::exp(s.high);
        s.code_step = std::max(s.code_step, outside(code, 127 * least, 127 * most));
        s.decay_step = std::max(s.decay_step, outside(relative, least, most));
      }
    }
  }
  return s;
}

}  // namespace octet::ref
