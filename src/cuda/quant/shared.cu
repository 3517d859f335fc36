// What is computed of several operands: the amax that they share, and q's products with K's mean.
#include <algorithm>
#include <string>

#include "base/try.h"
#include "cuda/ptx/grid.cuh"
#include "cuda/quant/encode.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/runtime/launch.cuh"
#include "octet/dtype.hpp"

namespace octet::cuda {
namespace {

constexpr int kSums = 4;  // beside each other, as on the CPU: one thread each

__device__ float plain_number(const TensorView& x, std::int64_t at) {
  switch (x.dtype) {
    case DType::f16:
      return f32_from_f16(static_cast<const std::uint16_t*>(x.data)[at]);
    case DType::bf16:
      return f32_from_bf16(static_cast<const std::uint16_t*>(x.data)[at]);
    default:
      return static_cast<const float*>(x.data)[at];
  }
}

__global__ __launch_bounds__(kThreads) void q_anchor_rows(const __grid_constant__ RowOrder order,
                                                          const __grid_constant__ TensorView q,
                                                          const __grid_constant__ TensorView mean,
                                                          int heads_per_mean, float softmax_scale,
                                                          const __grid_constant__ TensorView out) {
  ptx::wait_for_earlier_kernels();
  ptx::let_the_next_kernel_start();
  const Place p = order.at(blockIdx.x * (kThreads / kSums) + threadIdx.x / kSums);
  const int own = static_cast<int>(threadIdx.x) % kSums;
  double sum = 0;
  if (p.exists) {
    const std::int64_t dim = q.shape[3], fours = dim / kSums * kSums;
    const std::int64_t row = row_offset(q, p.b, p.h, p.t);
    const float* of_keys = static_cast<const float*>(mean.data) +
                           row_offset(mean, p.b, p.h / heads_per_mean, order.sequences.cu_seqlens ? p.s : 0);
    const auto add = [&](std::int64_t c) {
      sum += static_cast<double>(plain_number(q, row + c * q.stride[3])) *
             static_cast<double>(of_keys[c * mean.stride[3]]);
    };
    for (std::int64_t c = own; c < fours; c += kSums) add(c);
    if (own == 0)
      for (std::int64_t c = fours; c < dim; ++c) add(c);
  }
  sum += __shfl_xor_sync(kAllLanes, sum, 1);
  sum += __shfl_xor_sync(kAllLanes, sum, 2);
  if (p.exists && own == 0)
    static_cast<float*>(out.data)[row_offset(out, p.b, p.h, p.t)] =
        static_cast<float>(static_cast<double>(softmax_scale) * sum);
}

}  // namespace

Status finite_amax(std::span<const TensorView> tensors, float* amax, void* stream) {
  cudaMemsetAsync(amax, 0, sizeof(float), stream_of(stream));
  MeasuredRows together[kMostTogether];
  std::size_t count = 0;
  for (const TensorView& x : tensors) {
    if (x.dtype != DType::f32 && x.dtype != DType::f16 && x.dtype != DType::bf16)
      return invalid_argument("an operand's dtype is " + dtype_name(x.dtype) +
                              "; it must be f32, f16 or bf16");
    if (x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3] == 0) continue;
    OCTET_TRY(check_size(x, x.shape[3], nullptr));
    const MeasuredRows of{reading_of(x, {x.shape[0], x.shape[2], nullptr}, x.shape[3]),
                          {reinterpret_cast<std::uint32_t*>(amax), Groups::all_in_one(), 1}};
    if (count > 0 && (count == kMostTogether || dtype_bits(together[0].rows.x.dtype) != dtype_bits(x.dtype)))
      launch_measure({together, count}, stream), count = 0;
    together[count++] = of;
  }
  if (count > 0) launch_measure({together, count}, stream);
  return launch_status("finite_amax");
}

Status fill_q_anchor(const TensorView& q, const Sequences& sequences, const TensorView& mean,
                     float softmax_scale, const TensorView& out, void* stream) {
  if (mean.shape[1] < 1 || q.shape[1] % mean.shape[1] != 0 || q.shape[3] != mean.shape[3]) {
    return invalid_argument("K's mean has the shape " + shape_text(mean.shape) + ", but q has " +
                            shape_text(q.shape) +
                            "; dims must agree and the heads of q be a multiple of those of K");
  }
  if (q.shape[0] * q.shape[1] * q.shape[2] == 0) return {};
  OCTET_TRY(check_size(q, 1, nullptr));
  const RowOrder order(q, sequences);
  constexpr std::uint32_t kRowsOfBlock = kThreads / kSums;
  runtime::launch(q_anchor_rows, (order.rows + kRowsOfBlock - 1) / kRowsOfBlock, kThreads, 0, stream, order,
                  q, mean, static_cast<int>(q.shape[1] / mean.shape[1]), softmax_scale, out);
  return launch_status("fill_q_anchor");
}

}  // namespace octet::cuda
