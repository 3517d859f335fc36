// Codes back to numbers.
#include "base/try.h"
#include "cuda/quant/encode.cuh"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/runtime/launch.cuh"
#include "numerics/number_at.h"
#include "quant/check.h"
#include "quant/real.h"

namespace octet::cuda {
namespace {

struct Decoding {
  QuantizedTensor x;
  TensorView out;
  Divider tokens_per_scale, channels_per_scale;
  const std::int64_t* first_group =
      nullptr;  ///< [sequence] of packed tensors, for groups of more than a token
};

__device__ std::int64_t group_of(const RowReading& r, const Decoding& d, const Place& p) {
  const std::int64_t tokens = d.x.tokens_per_scale;
  const bool packed = r.order.sequences.cu_seqlens != nullptr;
  if (tokens == 0) return packed ? p.s : 0;
  if (tokens == 1) return p.t;
  const std::uint32_t group = d.tokens_per_scale.quotient(static_cast<std::uint32_t>(p.in_sequence()));
  return (packed ? d.first_group[p.s] : 0) + group;
}

__global__ __launch_bounds__(kThreads) void decode_rows(const __grid_constant__ RowReading r,
                                                        const __grid_constant__ Decoding d) {
  const Lane lane(r);
  const Place p = r.order.at(blockIdx.x * static_cast<std::uint32_t>(lane.rows_at_once) +
                             static_cast<std::uint32_t>(lane.row));
  const std::int64_t codes = row_offset(d.x.codes, p.b, p.h, p.t);
  const float* scales = d.x.scales.data ? static_cast<const float*>(d.x.scales.data) : nullptr;
  const auto* exponents = static_cast<const std::int32_t*>(d.x.channel_exponent.data);
  const auto* mean = static_cast<const float*>(d.x.mean.data);
  float v[kChannels] = {};
  if (p.exists) {
    if (scales) scales += row_offset(d.x.scales, p.b, p.h, group_of(r, d, p));
    if (exponents) exponents += r.unit_offset(d.x.channel_exponent, p);
    if (mean) mean += r.unit_offset(d.x.mean, p);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int c = lane.channel(i);
      if (c >= r.channels) continue;
      v[i] =
          number_at(d.x.codes.data, d.x.codes.dtype, codes + c * (r.channels == 1 ? 0 : d.x.codes.stride[3]));
      if (scales) {
        const std::uint32_t group = d.channels_per_scale.quotient(static_cast<std::uint32_t>(c));
        v[i] = quant::scaled_code(v[i], scales[group * d.x.scales.stride[3]]);
      }
      if (exponents) v[i] = quant::times_power_of_two(v[i], exponents[c]);
    }
  }
  if (r.hadamard > 0) {
#pragma unroll
    for (int i = 0; i < kChannels; ++i) v[i] = v[i] * r.norm;
    butterfly<1>(r, lane, v);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
      if (lane.channel(i) < r.channels && r.factor(lane.channel(i)) < 0) v[i] = -v[i];
  }
  if (!p.exists) return;
  float* to = static_cast<float*>(d.out.data) + row_offset(d.out, p.b, p.h, p.t);
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    const int c = lane.channel(i);
    if (c < static_cast<int>(d.out.shape[3])) to[c * d.out.stride[3]] = mean ? v[i] + mean[c] : v[i];
  }
}

}  // namespace

std::int64_t dequantize_scratch_bytes(const Sequences& sequences) {
  return sequences.cu_seqlens ? sequences.count * static_cast<std::int64_t>(sizeof(std::int64_t)) : 0;
}

Status dequantize(const QuantizedTensor& x, const Sequences& sequences, const TensorView& out, void* scratch,
                  void* stream) {
  OCTET_TRY(quant::check_dequantize(x, sequences, out));
  if (out.shape[0] * out.shape[1] * out.shape[2] == 0 || out.shape[3] == 0) return {};
  const std::int64_t channels = x.codes.shape[3], tokens = out.shape[2];
  OCTET_TRY(check_size(x.codes, channels, nullptr));
  const std::int64_t group = x.tokens_per_scale < tokens ? x.tokens_per_scale : tokens;
  const bool needs_groups = sequences.cu_seqlens && x.tokens_per_scale > 1;
  if (needs_groups && !scratch)
    return invalid_argument("scratch is null; give dequantize_scratch_bytes() bytes of device memory");
  RowReading rows = reading_of(x.codes, sequences, channels);
  if (x.rotate == Rotate::on) set_rotation(rows, out.shape[3], x.rotation_seed);
  const std::int64_t channel_run =
      x.channels_per_scale > 0 && x.channels_per_scale < channels ? x.channels_per_scale : channels;
  const Decoding decoding{x, out, Divider(group > 0 ? group : 1), Divider(channel_run),
                          static_cast<const std::int64_t*>(scratch)};
  if (needs_groups) launch_first_groups(sequences, group, static_cast<std::int64_t*>(scratch), stream);
  runtime::launch_in_order(decode_rows, blocks_for(rows, 1), kThreads, stream, rows, decoding);
  return launch_status("dequantize");
}

}  // namespace octet::cuda
