// Data, variants and seeds: what one row group of the accuracy tables is measured from.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "accuracy/distributions.h"
#include "accuracy/measure.h"
#include "common/command.h"

namespace octet::tool {

/// What is added to scores.
enum class ScoreBias {
  none,
  swin,  ///< a learnt bias by relative position, and half of the windows' regions hidden from each other
};

/// Every variant on the same inputs, once a seed. The figures pool the seeds.
struct Experiment {
  std::string name;
  DataSpec data;  ///< its seed is the first of `seeds`
  int seeds = 16;
  std::optional<float> softmax_scale;  ///< 1 / sqrt(dim) unless set
  Mask mask = Mask::none;
  ScoreBias bias = ScoreBias::none;
  WithBound bound = WithBound::no;  ///< of the first seed only: a bound costs about as much as the attention
  std::vector<Variant> variants;
};

/// Figures of all seeds together (relative_rmse, relative_l1, rmse, sqnr_db, max_abs_error, cosine,
/// non_finite), and under "least" and "most" the extremes of single seeds.
Json pooled_figures(const std::vector<ErrorSums>& seeds);

/// Runs all, several (experiment, seed) at a time on `threads` threads, and gives one document for each:
/// {name, data, seeds, rows: [{name, scheme, recipe, ..., figures, least, most}]}. `least` and `most` are of
/// single seeds. With a bound, a row has max_bound and max_error_over_bound of the first seed. A variant that
/// refuses the problem has "refused": why, and no figures. The numbers do not depend on the number of
/// threads. Errors: an experiment's float64 reference fails.
Result<std::vector<Json>> run_experiments(const std::vector<Experiment>& experiments, int threads,
                                          const std::string& what);

}  // namespace octet::tool
