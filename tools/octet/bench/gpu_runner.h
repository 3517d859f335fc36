// One row of a GPU suite: a plan with its operands in device memory, called and timed.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "bench/cpu_suite.h"
#include "bench/inputs.h"
#include "bench/rows.h"
#include "gpu/energy.h"
#include "gpu/gpu.h"

namespace octet::tool {

/// Q, K and V in bf16 in device memory.
struct DeviceInputs {
  gpu::Memory q, k, v;
  TensorView q_view, k_view, v_view;
};
Result<DeviceInputs> upload_inputs(const CpuInputs& inputs, Threads& threads);

/// Keys a block: as many blocks as of 128 keys, the library's default, all as wide but the last. 197 keys are
/// 112 and 85 instead of 128 and 69: the same number of blocks, none wider than it must be. Of 128 where
/// two such and more leave no more than sixteen keys, as the library would have it: 16 x 257 x 64 take
/// int8_half, the fastest of all from bf16, 8.2 us so and 9.7 in three blocks of 96, others up to a
/// quarter more (H200).
std::int64_t key_block_of(const CpuWorkload& workload);

/// A plan with what its calls need. Excluded: codes that the host's quantiser made, K and V packed
/// beforehand, o in f16. Counted: the bf16 tensors, o in bf16. Cached: as many of the last keys as there are
/// queries are appended in bf16 to a cache of the others, o in bf16.
class GpuRunner {
 public:
  static Result<GpuRunner> prepare(const CpuVariant& variant, const CpuWorkload& workload,
                                   Quantisation quantisation, const CpuInputs& inputs,
                                   const DeviceInputs& device_inputs, const gpu::Stream& stream,
                                   Threads& threads);

  Status call();
  const AttentionPlan& plan() const { return plan_; }
  const AttentionDesc& desc() const { return desc_; }
  const AttentionArgs& args() const { return args_; }
  DType output_dtype() const { return args_.o.dtype; }
  Result<std::vector<std::byte>> download_output() const;

 private:
  explicit GpuRunner(AttentionPlan plan) : plan_(std::move(plan)) {}
  Status place_codes(Operands operands);
  Status place_cache(const CpuWorkload& workload, const DeviceInputs& inputs);
  Status place_output(const CpuWorkload& workload, DType dtype);
  Status step();

  AttentionPlan plan_;
  AttentionDesc desc_;
  AttentionArgs args_;
  bool packed_ = false;
  std::optional<KvCache> cache_;
  TensorView new_k_, new_v_;         ///< tokens that a call appends
  std::vector<gpu::Memory> memory_;  ///< of codes, output and workspace; the output's is at output_
  std::size_t output_ = 0;
};

/// Seconds of a call, and the graph that they were measured with.
struct GpuTiming {
  double seconds = 0;
  int calls_per_graph = 0;
  gpu::Graph graph;
};
/// The median of seven replays of a graph, after replays to warm up; it holds so many calls that it lasts
/// some 10 ms, from one to a hundred.
Result<GpuTiming> time_on_gpu(const gpu::Stream& stream, const std::function<Status()>& call);

/// Energy of the timing's calls, from replays in bursts.
Result<gpu::Energy> weigh(const gpu::EnergyCounter& counter, const gpu::Stream& stream,
                          const GpuTiming& timing, double seconds);

}  // namespace octet::tool
