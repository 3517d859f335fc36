// One attention call from tensors in memory: planned, run, and compared with the exact result.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "common/problem_input.h"
#include "common/threads.h"
#include "io/host_tensor.h"
#include "octet/octet.hpp"

namespace octet::tool {

/// A plan and the memory that its calls need.
struct Prepared {
  AttentionPlan plan;
  Workspace workspace;
  AttentionDesc desc;
};
Result<Prepared> prepare(const AttentionDesc& desc, const std::string& backend);

/// The backend whose figures are those of a scheme's specification: the same on every machine.
inline constexpr const char* kMeasuredBackend = "reference";

/// What a call wrote. o is contiguous in the input's layout; view is [batch, heads, tokens, dim] all the
/// same.
struct Output {
  HostTensor o, lse, o_scale;  ///< lse and o_scale: f32 [batch, heads, tokens]; no values where not asked for
  TensorView view, lse_view, o_scale_view;
  double seconds = 0;  ///< wall clock of octet_attend: quantisation and attention
};
Result<Output> attend(const Prepared& prepared, const ProblemInput& input, Threads& threads);

/// The same problem in float64 (scheme exact, its own recipe, f64 output).
AttentionDesc exact_desc(const AttentionDesc& desc);
Result<Output> attend_exactly(const AttentionDesc& desc, const ProblemInput& input, Threads& threads);

/// octet_error_bound, f32 in the layout of o; nothing where the library has none for the call (status
/// unsupported).
struct Bound {
  HostTensor bound;
  TensorView view;
};
Result<std::optional<Bound>> error_bound(const Prepared& prepared, const ProblemInput& input,
                                         Threads& threads);

/// Errors of `output` (codes times their scales where it is s8) against `exact`, one entry of sums for each
/// batch entry; with the bound's share of them where there is one. merge() pools the entries.
std::vector<ErrorSums> compare(const Output& output, const Output& exact, const std::optional<Bound>& bound);
ErrorSums pooled(const std::vector<ErrorSums>& sums);

/// What a comparison prints: relative_rmse, relative_l1, max_abs_error, sqnr_db, cosine, max_bound,
/// max_error_over_bound (the last two null without a bound).
Json errors_json(const ErrorSums& sums, bool has_bound);

}  // namespace octet::tool
