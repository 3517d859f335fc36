// Random operands of a workload, and the same as codes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/workloads.h"
#include "common/threads.h"
#include "io/host_tensor.h"
#include "octet/octet.hpp"

namespace octet::tool {

/// Q, K, V in f32, normal with deviation 1, and the bias.
struct CpuInputs {
  HostTensor q_tensor, k_tensor, v_tensor, bias_tensor;
  TensorView q, k, v, bias;  ///< bias.data null: none
};
Result<CpuInputs> draw_inputs(const CpuWorkload& workload, std::uint64_t seed, Threads& threads);

/// What a call is given: the f32 tensors, the same rounded to f16 or bf16, or what the plan's quantiser makes
/// of them.
struct Operands {
  QuantizedTensor q;
  std::vector<QuantizedTensor> k,
      v;  ///< copies that calls take in turn, so that none finds its keys in a cache
  DType input = DType::f32;
  std::int64_t kv_bytes = 0;         ///< of one copy: codes, scales, channels' exponents, mean
  std::vector<HostTensor> memory{};  ///< of all parts
};
Operands plain_operands(const CpuInputs& inputs);

/// f16 or bf16: each number rounded to nearest.
Result<Operands> narrow_operands(const CpuInputs& inputs, DType dtype);

/// Operands::kv_bytes of what the plan's quantiser would make of K and V, which a call against a cache reads;
/// what the cache keeps beside it for later tokens is not counted.
Result<std::int64_t> coded_kv_bytes(const CpuInputs& inputs, const AttentionPlan& plan);

/// Keys and values that calls take in turn: more than the caches of a machine keep of them.
inline constexpr std::int64_t kColdBytes = std::int64_t{256} << 20;

/// By the recipes of `plan`, which takes plain operands. For `decode` as many copies of K and V as no cache
/// holds.
Result<Operands> coded_operands(const CpuInputs& inputs, const AttentionPlan& plan, Kind kind,
                                Threads& threads);

}  // namespace octet::tool
