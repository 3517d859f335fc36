// The exact result of a workload, or of some of its rows where float64 attention of all would take long.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "bench/inputs.h"
#include "common/run.h"

namespace octet::tool {

/// Query rows of one head: whole rows of the output.
struct SampledRows {
  std::int64_t batch = 0, head = 0, first = 0, count = 0;
};

/// None where all rows of all heads together are cheap. Else chunks of rows in the first and third eighth of
/// the queries and so on, of up to four heads from the first batch entry to the last: as many as take about a
/// second. note: no row at the beginning, where a causal row sees few keys and its size would outweigh all
/// others'.
std::vector<SampledRows> sampled_rows(const CpuWorkload& workload);

class GpuReference {
 public:
  static Result<GpuReference> compute(const CpuWorkload& workload, const CpuInputs& inputs, Threads& threads);

  const std::vector<SampledRows>& samples() const { return samples_; }  ///< none: all rows
  std::int64_t rows() const;                                            ///< that are compared

  /// Root of the mean squared error of `o`, [batch, heads, tokens, dim] in the dtype, over that of the exact
  /// rows.
  double relative_rmse(std::span<const std::byte> o, DType dtype) const;

 private:
  CpuWorkload workload_{};
  std::vector<SampledRows> samples_;
  std::vector<Output> exact_;  ///< of each sample, or one of all
};

}  // namespace octet::tool
