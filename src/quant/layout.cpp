// Shapes and strides of what quantize() writes.
#include "quant/codes.h"
#include "quant/quantize.h"
#include "quant/transform.h"

namespace octet::quant {
namespace {

TensorView contiguous(DType dtype, std::int64_t b, std::int64_t h, std::int64_t t, std::int64_t c,
                      std::int64_t row) {
  return {nullptr, dtype, Device::cpu, {b, h, t, c}, {h * t * row, t * row, row, 1}};
}

std::int64_t tokens_per_scale(const OperandRecipe& recipe) {
  switch (recipe.granularity) {
    case Granularity::token:
      return 1;
    case Granularity::block:
    case Granularity::block_channel:
      return recipe.block;
    default:
      return 0;
  }
}

bool is_per_channel(Granularity granularity) {
  return granularity == Granularity::channel || granularity == Granularity::block_channel;
}

}  // namespace

QuantizedTensor layout(const std::array<std::int64_t, 4>& shape, const OperandRecipe& recipe,
                       std::int64_t packed_sequences) {
  const auto [b, h, t, dim] = shape;
  const std::int64_t channels = code_dim(dim, recipe.rotate);
  const std::int64_t sequences = packed_sequences > 0 ? packed_sequences : 1;
  QuantizedTensor out;
  // s4 rows end on a byte: their strides count codes and are even.
  const std::int64_t row = recipe.format == DType::s4 ? (channels + 1) / 2 * 2 : channels;
  out.codes = contiguous(recipe.format, b, h, t, channels, row);
  if (has_scales(recipe.format)) {
    out.tokens_per_scale = tokens_per_scale(recipe);
    out.channels_per_scale = is_per_channel(recipe.granularity) ? 1 : 0;
    const std::int64_t groups = Sequences::groups(t, out.tokens_per_scale, packed_sequences);
    const std::int64_t channel_groups = out.channels_per_scale ? channels : 1;
    out.scales = contiguous(DType::f32, b, h, groups, channel_groups, channel_groups);
    if (channel_groups == 1) out.scales.stride[3] = 0;
    if (out.tokens_per_scale == 0 && packed_sequences == 0) out.scales.stride[2] = 0;
    if (recipe.granularity == Granularity::tensor) out.scales.stride = {};
  }
  if (recipe.equalise == Equalise::on) {
    out.channel_exponent = contiguous(DType::s32, b, h, sequences, channels, channels);
  }
  if (recipe.smooth != Smooth::none) out.mean = contiguous(DType::f32, b, h, sequences, dim, dim);
  out.rotate = recipe.rotate;
  out.rotation_seed = recipe.rotation_seed;
  return out;
}

}  // namespace octet::quant
