#include "quant/check.h"

#include <cmath>
#include <string>

#include "base/try.h"
#include "octet/dtype.hpp"
#include "quant/codes.h"
#include "quant/transform.h"

namespace octet::quant {
namespace {

bool is_plain(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

bool is_format(DType dtype) { return has_scales(dtype) || is_plain(dtype) || dtype == DType::f64; }

Status check_shape(const TensorView& x, const char* name, const std::array<std::int64_t, 4>& shape) {
  if (x.shape == shape) return {};
  return invalid_argument(std::string(name) + " has the shape " + shape_text(x.shape) + ", but " +
                          shape_text(shape) + " is needed; take it from layout()");
}

Status check_sequences(const TensorView& x, const Sequences& sequences) {
  const bool packed = sequences.cu_seqlens != nullptr;
  if (sequences.tokens == x.shape[2] && (packed ? x.shape[0] == 1 : sequences.count == x.shape[0])) return {};
  return invalid_argument("the sequences cover " + std::to_string(packed ? 1 : sequences.count) +
                          " batch entries of " + std::to_string(sequences.tokens) +
                          " tokens, but the tensor's shape is " + shape_text(x.shape) + "; they must agree");
}

Status check_recipe(const OperandRecipe& recipe) {
  if (!is_format(recipe.format)) {
    return invalid_argument("the recipe's format is " + dtype_name(recipe.format) +
                            "; it must be s8, s4, e4m3, e5m2, f16, bf16, f32 or f64");
  }
  if (!has_scales(recipe.format)) return {};
  // Half a step above the last code is the most that still rounds to it (qattn's 127.5).
  const float largest = largest_code_of(recipe.format) + (is_integer(recipe.format) ? 0.5f : 0.0f);
  if (!(recipe.largest_code >= 2 && recipe.largest_code <= largest)) {
    return invalid_argument("largest_code is " + std::to_string(recipe.largest_code) +
                            "; for this format it must lie in [2, " + std::to_string(largest) + "]");
  }
  if (!(recipe.shared_amax >= 0 && std::isfinite(recipe.shared_amax))) {
    return invalid_argument("shared_amax is " + std::to_string(recipe.shared_amax) +
                            "; it must be finite and positive, or 0 to measure each group");
  }
  const bool blocks = recipe.granularity == Granularity::block ||
                      recipe.granularity == Granularity::block_channel || recipe.block_floor_octaves > 0;
  if (blocks && recipe.block < 1) {
    return invalid_argument("block is " + std::to_string(recipe.block) +
                            "; it must be at least 1 token, 128 unless you know better");
  }
  constexpr int kMostOctaves = 126;  // one more and the floor of the largest scale is no normal number
  for (const int octaves : {recipe.block_floor_octaves, recipe.head_floor_octaves}) {
    if (octaves < 0 || octaves > kMostOctaves) {
      return invalid_argument("a scale floor is " + std::to_string(octaves) +
                              " octaves below its reference; it must lie in [0, 126], 0 for no floor");
    }
  }
  return {};
}

// Rows are written and read as wholes, codes as well as the mean and the exponents beside them.
Status check_dim_stride(const TensorView& x, const std::string& name) {
  if (!x.data || x.shape[3] <= 1 || x.stride[3] == 1) return {};
  return invalid_argument("the dim stride of " + name + " is " + std::to_string(x.stride[3]) +
                          "; it must be 1, so pass a tensor whose rows are contiguous");
}

Status check_row_strides(const QuantizedTensor& x) {
  OCTET_TRY(check_dim_stride(x.codes, "codes"));
  OCTET_TRY(check_dim_stride(x.channel_exponent, "channel_exponent"));
  return check_dim_stride(x.mean, "mean");
}

Status check_codes(const TensorView& codes) {
  const bool odd = (codes.stride[0] | codes.stride[1] | codes.stride[2]) & 1;
  if (codes.dtype == DType::s4 && odd) {
    return invalid_argument("a stride of the s4 codes is odd; two codes share a byte, so make all even");
  }
  return {};
}

}  // namespace

Status check_quantize(const TensorView& x, const Sequences& sequences, const OperandRecipe& recipe,
                      const QuantizedTensor& out) {
  if (!is_plain(x.dtype)) {
    return invalid_argument("the operand's dtype is " + dtype_name(x.dtype) +
                            "; the quantiser reads f32, f16 and bf16, so convert it first");
  }
  for (const int axis : {0, 1, 3}) {
    const auto a = static_cast<std::size_t>(axis);
    if (x.shape[a] < 1 || x.shape[2] < 0) {
      return invalid_argument("the operand's shape is " + shape_text(x.shape) +
                              "; batch, heads and dim must be at least 1 and tokens at least 0");
    }
  }
  OCTET_TRY(check_sequences(x, sequences));
  OCTET_TRY(check_recipe(recipe));
  if (recipe.anchor.data && recipe.smooth == Smooth::anchor) {
    const std::int64_t batch = recipe.anchor.shape[0];
    if (!is_plain(recipe.anchor.dtype) || (batch != 1 && batch != x.shape[0]) ||
        recipe.anchor.shape[1] != x.shape[1] || recipe.anchor.shape[3] != x.shape[3]) {
      return invalid_argument("the anchor's shape is " + shape_text(recipe.anchor.shape) +
                              "; it must be f32 [batch or 1, heads, 1, dim] of the operand " +
                              shape_text(x.shape));
    }
  }
  const QuantizedTensor expected = layout(x.shape, recipe, sequences.cu_seqlens ? sequences.count : 0);
  if (out.codes.dtype != recipe.format) {
    return invalid_argument("the codes' dtype is " + dtype_name(out.codes.dtype) +
                            "; it must be the recipe's format, " + dtype_name(recipe.format));
  }
  OCTET_TRY(check_shape(out.codes, "codes", expected.codes.shape));
  OCTET_TRY(check_codes(out.codes));
  OCTET_TRY(check_shape(out.scales, "scales", expected.scales.shape));
  OCTET_TRY(check_shape(out.channel_exponent, "channel_exponent", expected.channel_exponent.shape));
  OCTET_TRY(check_shape(out.mean, "mean", expected.mean.shape));
  OCTET_TRY(check_row_strides(out));
  const bool missing = !out.codes.data || (has_scales(recipe.format) && !out.scales.data) ||
                       (recipe.equalise == Equalise::on && !out.channel_exponent.data) ||
                       (recipe.smooth != Smooth::none && !out.mean.data);
  if (missing && x.shape[2] > 0) {
    return invalid_argument("an output pointer is null; set data of every view that layout() gives a shape");
  }
  return {};
}

Status check_dequantize(const QuantizedTensor& x, const Sequences& sequences, const TensorView& out) {
  if (out.dtype != DType::f32) return invalid_argument("dequantised values are f32; give an f32 output");
  if (!is_format(x.codes.dtype) || (has_scales(x.codes.dtype) && !x.scales.data)) {
    return invalid_argument(
        "codes of dtype " + dtype_name(x.codes.dtype) +
        " cannot be dequantised; s8, s4, e4m3 and e5m2 with scales, or plain numbers can");
  }
  OCTET_TRY(check_sequences(x.codes, sequences));
  OCTET_TRY(check_codes(x.codes));
  OCTET_TRY(check_row_strides(x));
  const auto [b, h, t, dim] = out.shape;
  return check_shape(x.codes, "codes", {b, h, t, code_dim(dim, x.rotate)});
}

}  // namespace octet::quant
