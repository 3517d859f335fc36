// The exact result of a few rows of every head: float64 attention of a long shape would take minutes.
#pragma once
#include <cstdint>
#include <vector>

#include "bench/inputs.h"
#include "common/run.h"

namespace octet::tool {

class ExactRows {
 public:
  /// Rows at the beginning, in the middle and at the end, as many as take about a second; all where the shape
  /// is short.
  static Result<ExactRows> compute(const CpuWorkload& workload, const CpuInputs& inputs, Threads& threads);

  /// Root of the mean squared error of `o`, f32, f16 or bf16 [batch, heads, tokens, dim], over that of the
  /// exact rows.
  double relative_rmse(const HostTensor& o) const;

 private:
  struct Chunk {
    std::int64_t first_row;
    Output exact;
  };
  std::vector<Chunk> chunks_;
};

}  // namespace octet::tool
