#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "base/try.h"
#include "quant/check.h"
#include "quant/codes.h"
#include "quant/quantize.h"
#include "quant/real.h"
#include "quant/rotate.h"
#include "quant/rows.h"
#include "quant/smooth.h"

namespace octet::quant {
namespace {

/// By the scales of the row's group. A plain tensor has none.
void apply_scales(const QuantizedTensor& x, const TokenRange& at, std::int64_t group,
                  std::vector<float>& values) {
  if (!x.scales.data) return;
  const float* factor = static_cast<const float*>(x.scales.data) + row_offset(x.scales, at.b, at.h, group);
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t run = x.channels_per_scale ? x.channels_per_scale : count;
  for (std::int64_t c = 0; c < count; c += run, factor += x.scales.stride[3])
    for (std::int64_t i = c; i < std::min(c + run, count); ++i)
      values[static_cast<std::size_t>(i)] = scaled_code(values[static_cast<std::size_t>(i)], *factor);
}

void apply_exponents(const QuantizedTensor& x, const TokenRange& at, std::int64_t sequence,
                     std::vector<float>& values) {
  if (!x.channel_exponent.data) return;
  const auto* exponent = static_cast<const std::int32_t*>(x.channel_exponent.data) +
                         row_offset(x.channel_exponent, at.b, at.h, sequence);
  for (std::size_t c = 0; c < values.size(); ++c) values[c] = times_power_of_two(values[c], exponent[c]);
}

void dequantize_sequence(const QuantizedTensor& x, const TensorView& out, const TokenRange& at,
                         std::int64_t sequence, std::int64_t first_group) {
  const std::int64_t dim = out.shape[3];
  const Rotation rotation(dim, x.rotation_seed);
  std::vector<float> values(static_cast<std::size_t>(x.codes.shape[3]));
  std::vector<float> mean(static_cast<std::size_t>(dim));
  if (x.mean.data) load_row(x.mean, at.b, at.h, sequence, mean.data());
  for (std::int64_t t = 0; t < at.length; ++t) {
    read_codes(x.codes, at.b, at.h, at.begin + t, values.data());
    apply_scales(x, at, first_group + (x.tokens_per_scale ? t / x.tokens_per_scale : 0), values);
    apply_exponents(x, at, sequence, values);
    if (x.rotate == Rotate::on) rotation.inverse(values.data());
    if (x.mean.data)
      for (std::size_t c = 0; c < mean.size(); ++c) values[c] += mean[c];
    float* to = static_cast<float*>(out.data) + row_offset(out, at.b, at.h, at.begin + t);
    if (out.stride[3] == 1)
      std::copy_n(values.data(), dim, to);
    else
      for (std::int64_t c = 0; c < dim; ++c) to[c * out.stride[3]] = values[static_cast<std::size_t>(c)];
  }
}

}  // namespace

Status dequantize(const QuantizedTensor& x, const Sequences& sequences, const TensorView& out,
                  const ParallelFor& parallel_for) {
  OCTET_TRY(check_dequantize(x, sequences, out));
  const std::int64_t heads = out.shape[1];
  for_each_parallel(parallel_for, sequences.count * heads, [&](std::int64_t unit) {
    const std::int64_t s = unit / heads;
    const TokenRange at{sequences.batch(s), unit % heads, sequences.begin(s), sequences.length(s)};
    dequantize_sequence(x, out, at, sequences.cu_seqlens ? s : 0,
                        sequences.first_group(s, x.tokens_per_scale));
  });
  return {};
}

}  // namespace octet::quant
