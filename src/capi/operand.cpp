// One operand: its recipe, its layout, to codes and back.
#include <algorithm>
#include <cmath>

#include "base/sequences.h"
#include "base/try.h"
#include "capi/guard.h"
#include "capi/plan_handle.h"
#include "octet/abi.hpp"
#include "octet/dtype.hpp"

namespace {

using namespace octet;
using Axes = std::array<std::int64_t, 4>;

constexpr std::int64_t kMaxAxis = 0x7fffffff;  // as a problem's; cu_seqlens are 32 bits
constexpr std::int64_t kMaxDim = 65536;        // far above any head; keeps the scratch of a row small

octet_operand_recipe to_c(const quant::OperandRecipe& r) {
  octet_operand_recipe c{};
  c.struct_size = sizeof c;
  c.format = static_cast<octet_dtype>(r.format);
  c.granularity = static_cast<octet_granularity>(r.granularity);
  c.block = r.block;
  c.largest_code = r.largest_code;
  c.shared_amax = r.shared_amax;
  c.scale_rule = static_cast<std::int32_t>(r.rule);
  c.block_floor_octaves = r.block_floor_octaves;
  c.head_floor_octaves = r.head_floor_octaves;
  c.smooth = static_cast<octet_smooth>(r.smooth);
  c.rotate = static_cast<std::int32_t>(r.rotate);
  c.equalise = static_cast<std::int32_t>(r.equalise);
  c.rotation_seed = r.rotation_seed;
  c.anchor = abi::to_c(r.anchor);
  return c;
}

quant::OperandRecipe from_c(const octet_operand_recipe& c) {
  quant::OperandRecipe r;
  r.format = static_cast<DType>(c.format);
  r.granularity = static_cast<Granularity>(c.granularity);
  r.block = c.block;
  r.largest_code = c.largest_code == 0 ? capi::largest_code(r.format) : c.largest_code;
  r.shared_amax = c.shared_amax;
  r.rule = static_cast<quant::ScaleRule>(c.scale_rule);
  r.block_floor_octaves = c.block_floor_octaves;
  r.head_floor_octaves = c.head_floor_octaves;
  r.smooth = static_cast<Smooth>(c.smooth);
  r.rotate = static_cast<Rotate>(c.rotate);
  r.equalise = static_cast<Equalise>(c.equalise);
  r.rotation_seed = c.rotation_seed;
  r.anchor = abi::from_c(c.anchor);
  return r;
}

Status known(EnumKind kind, const char* argument, std::int32_t value) {
  if (is_valid(kind, value)) return {};
  return broken(argument, value, "it must be 0 to " + std::to_string(names_of(kind).size() - 1),
                "choose a value of the enumeration " + std::string(argument_of(kind)));
}

bool has_codes(DType format) {
  return format == DType::s8 || format == DType::s4 || format == DType::e4m3 || format == DType::e5m2;
}

bool is_plain(DType x) { return x == DType::f32 || x == DType::f16 || x == DType::bf16; }

Result<quant::OperandRecipe> checked_recipe(const octet_operand_recipe* c) {
  OCTET_TRY(capi::known_struct("recipe", c));
  OCTET_TRY(known(EnumKind::dtype, "recipe->format", c->format));
  OCTET_TRY(known(EnumKind::granularity, "recipe->granularity", c->granularity));
  OCTET_TRY(known(EnumKind::scale_rule, "recipe->scale_rule", c->scale_rule));
  OCTET_TRY(known(EnumKind::smooth, "recipe->smooth", c->smooth));
  OCTET_TRY(known(EnumKind::rotate, "recipe->rotate", c->rotate));
  OCTET_TRY(known(EnumKind::equalise, "recipe->equalise", c->equalise));
  const auto format = static_cast<DType>(c->format);
  if (!has_codes(format) && !is_plain(format) && format != DType::f64) {
    return broken("recipe->format", name_of(format), "the quantiser writes no such numbers",
                  "choose s8, s4, e4m3, e5m2, f16, bf16, f32 or f64");
  }
  if (c->block < 0 || c->block > kMaxAxis)
    return broken("recipe->block", c->block, "it must be 0 to 2147483647", "choose 128 tokens");
  const bool in_blocks = c->granularity == OCTET_PER_BLOCK || c->granularity == OCTET_PER_BLOCK_CHANNEL ||
                         c->block_floor_octaves > 0;
  if (in_blocks && c->block == 0)
    return broken("recipe->block", c->block, "scales of a block need its tokens", "choose 128 tokens");
  return from_c(*c);
}

/// Shapes whose products and bytes stay far inside 63 bits.
Status check_shape(const std::string& argument, const Axes& shape, std::int64_t sequences) {
  const bool in_range = shape[0] >= 1 && shape[1] >= 1 && shape[2] >= 0 && shape[3] >= 1 &&
                        *std::max_element(shape.begin(), shape.end()) <= kMaxAxis && shape[3] <= kMaxDim;
  if (!in_range) {
    return broken(argument, shape_text(shape),
                  "batch, heads and dim must be at least 1, dim at most 65536, tokens 0 to 2147483647",
                  "pass [batch, head, token, dim]");
  }
  std::int64_t bytes = 16 * 2 * shape[3];  // numbers of 8 bytes twice over, a dim that pads to twice itself
  const bool overflows = __builtin_mul_overflow(bytes, shape[0], &bytes) ||
                         __builtin_mul_overflow(bytes, shape[1], &bytes) ||
                         __builtin_mul_overflow(bytes, shape[2] + 2 * sequences + 1, &bytes);
  if (!overflows) return {};
  return broken(argument, shape_text(shape), "its size in bytes does not fit 63 bits", "split the tensor");
}

Result<Sequences> checked_sequences(const octet_packing* packing, const Axes& shape) {
  if (!packing || packing->sequences == 0) return Sequences{shape[0], shape[2], nullptr};
  if (packing->sequences < 0 || packing->sequences > kMaxAxis)
    return broken("packing->sequences", packing->sequences, "it must be 0 to 2147483647", "pass 0 for dense");
  if (shape[0] != 1)
    return broken("batch", shape[0], "it must be 1 where sequences are packed", "pack along the token axis");
  OCTET_TRY(validate_cu_seqlens("packing->cu_seqlens", packing->cu_seqlens, packing->sequences, shape[2]));
  return Sequences{packing->sequences, shape[2], packing->cu_seqlens};
}

std::int64_t packed(const Sequences& s) { return s.cu_seqlens ? s.count : 0; }

/// One of the tensors that quantize() writes, against the layout's.
Status check_written(const std::string& argument, const TensorView& x, const TensorView& expected) {
  if (expected.shape == Axes{}) {
    if (!x.data) return {};
    return broken(argument, "set", "the recipe writes no such tensor", "leave it unset");
  }
  if (expected.stride != Axes{})
    return validate_output(argument, x, expected.dtype, Device::cpu, expected.shape);
  // One scale for all: every stride must be 0, or the rest would stay unwritten.
  OCTET_TRY(validate_tensor(argument, x, expected.dtype, Device::cpu));
  for (std::size_t a = 0; a < 4; ++a) {
    if (x.shape[a] == expected.shape[a] && (x.shape[a] <= 1 || x.stride[a] == 0)) continue;
    return broken(argument + ".shape", shape_text(x.shape) + " with strides " + shape_text(x.stride),
                  "one scale is written, for the shape " + shape_text(expected.shape) + " with strides 0",
                  "take shape and strides from octet_quantized_layout");
  }
  return {};
}

Status quantize(const octet_tensor* x, const octet_operand_recipe* recipe, const octet_packing* packing,
                const octet_quantized_tensor* out, const octet_parallel_for* parallel_for) {
  OCTET_TRY(capi::not_null("x", x));
  OCTET_TRY(capi::not_null("out", out));
  Result<quant::OperandRecipe> checked = checked_recipe(recipe);
  if (!checked.ok()) return checked.status();
  const quant::OperandRecipe r = checked.take();
  OCTET_TRY(known(EnumKind::dtype, "x.dtype", x->dtype));
  const TensorView input = abi::from_c(*x);
  if (!is_plain(input.dtype))
    return broken("x.dtype", name_of(input.dtype), "the quantiser reads f32, f16 and bf16",
                  "convert the tensor");
  const std::int64_t sequences = packing ? std::clamp<std::int64_t>(packing->sequences, 0, kMaxAxis) : 0;
  OCTET_TRY(check_shape("x.shape", input.shape, sequences));
  OCTET_TRY(validate_tensor("x", input, input.dtype, Device::cpu));
  const Result<Sequences> s = checked_sequences(packing, input.shape);
  if (!s.ok()) return s.status();
  if (r.anchor.data && r.smooth == Smooth::anchor) {
    const Axes shape{r.anchor.shape[0] == 1 ? 1 : input.shape[0], input.shape[1], 1, input.shape[3]};
    if (r.anchor.shape != shape)
      return broken("recipe->anchor.shape", shape_text(r.anchor.shape), "it must be " + shape_text(shape),
                    "pass one row a head");
    OCTET_TRY(validate_tensor("recipe->anchor", r.anchor, DType::f32, Device::cpu));
  }
  const QuantizedTensor target = abi::from_c(*out);
  const QuantizedTensor expected = quant::layout(input.shape, r, packed(s.value()));
  OCTET_TRY(check_written("out->codes", target.codes, expected.codes));
  OCTET_TRY(check_written("out->scales", target.scales, expected.scales));
  OCTET_TRY(check_written("out->channel_exponent", target.channel_exponent, expected.channel_exponent));
  OCTET_TRY(check_written("out->mean", target.mean, expected.mean));
  if (target.tokens_per_scale != expected.tokens_per_scale ||
      target.channels_per_scale != expected.channels_per_scale) {
    return broken("out->tokens_per_scale, channels_per_scale",
                  std::to_string(target.tokens_per_scale) + ", " + std::to_string(target.channels_per_scale),
                  "the recipe's are " + std::to_string(expected.tokens_per_scale) + ", " +
                      std::to_string(expected.channels_per_scale),
                  "take them from octet_quantized_layout");
  }
  return quant::quantize(input, s.value(), r, target,
                         parallel_for ? abi::from_c(*parallel_for) : ParallelFor{});
}

/// One of the tensors that dequantize() reads beside the codes.
Status check_read(const std::string& argument, const TensorView& x, DType dtype, const Axes& shape) {
  if (x.shape != shape)
    return broken(argument + ".shape", shape_text(x.shape), "these codes need " + shape_text(shape),
                  "pass what octet_quantize wrote");
  return validate_tensor(argument, x, dtype, Device::cpu);
}

Status dequantize(const octet_quantized_tensor* in, const octet_packing* packing, const octet_tensor* out,
                  const octet_parallel_for* parallel_for) {
  OCTET_TRY(capi::not_null("x", in));
  OCTET_TRY(capi::not_null("out", out));
  OCTET_TRY(known(EnumKind::dtype, "x->codes.dtype", in->codes.dtype));
  OCTET_TRY(known(EnumKind::rotate, "x->rotate", in->rotate));
  const QuantizedTensor x = abi::from_c(*in);
  const TensorView target = abi::from_c(*out);
  if (!has_codes(x.codes.dtype) && !is_plain(x.codes.dtype) && x.codes.dtype != DType::f64)
    return broken("x->codes.dtype", name_of(x.codes.dtype), "the quantiser writes no such numbers",
                  "pass what octet_quantize wrote");
  const std::int64_t count = packing ? std::clamp<std::int64_t>(packing->sequences, 0, kMaxAxis) : 0;
  OCTET_TRY(check_shape("x->codes.shape", x.codes.shape, count));
  OCTET_TRY(check_shape("out->shape", target.shape, count));
  OCTET_TRY(validate_tensor("x->codes", x.codes, x.codes.dtype, Device::cpu));
  const Result<Sequences> s = checked_sequences(packing, x.codes.shape);
  if (!s.ok()) return s.status();
  const auto [b, h, t, dim] = x.codes.shape;
  const std::int64_t per_head = std::max<std::int64_t>(packed(s.value()), 1);
  if (x.tokens_per_scale < 0 || x.tokens_per_scale > kMaxAxis || x.channels_per_scale < 0 ||
      x.channels_per_scale > kMaxAxis)
    return broken("x->tokens_per_scale, channels_per_scale",
                  std::to_string(x.tokens_per_scale) + ", " + std::to_string(x.channels_per_scale),
                  "both must be 0 to 2147483647", "pass what octet_quantize wrote");
  if (!has_codes(x.codes.dtype) && x.scales.data)
    return broken("x->scales.data", "not NULL", name_of(x.codes.dtype) + " numbers have no scales",
                  "set it to NULL, or pass the codes that the scales belong to");
  if (has_codes(x.codes.dtype)) {
    const std::int64_t groups = Sequences::groups(t, x.tokens_per_scale, packed(s.value()));
    const std::int64_t channels =
        x.channels_per_scale ? (dim + x.channels_per_scale - 1) / x.channels_per_scale : 1;
    OCTET_TRY(check_read("x->scales", x.scales, DType::f32, {b, h, groups, channels}));
  }
  if (x.channel_exponent.data)
    OCTET_TRY(check_read("x->channel_exponent", x.channel_exponent, DType::s32, {b, h, per_head, dim}));
  if (x.mean.data) OCTET_TRY(check_read("x->mean", x.mean, DType::f32, {b, h, per_head, target.shape[3]}));
  OCTET_TRY(validate_output("out", target, DType::f32, Device::cpu, {b, h, t, target.shape[3]}));
  return quant::dequantize(x, s.value(), target, parallel_for ? abi::from_c(*parallel_for) : ParallelFor{});
}

}  // namespace

extern "C" {

octet_status octet_operand_recipe_of(const octet_plan* plan, octet_operand operand,
                                     octet_operand_recipe* recipe) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("plan", plan));
    OCTET_TRY(capi::known_struct("recipe", recipe));
    const capi::OperandRecipes all = capi::operand_recipes(plan->plan.desc);
    switch (operand) {
      case OCTET_Q:
        *recipe = to_c(all.q);
        return {};
      case OCTET_K:
        *recipe = to_c(all.k);
        return {};
      case OCTET_V:
        *recipe = to_c(all.v);
        return {};
      default:
        return broken("operand", operand, "it must be 0, 1 or 2", "pass OCTET_Q, OCTET_K or OCTET_V");
    }
  });
}

octet_status octet_quantized_layout(const int64_t shape[4], const octet_operand_recipe* recipe,
                                    int64_t packed_sequences, octet_quantized_tensor* layout) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("shape", shape));
    OCTET_TRY(capi::not_null("layout", layout));
    Result<quant::OperandRecipe> checked = checked_recipe(recipe);
    if (!checked.ok()) return checked.status();
    if (packed_sequences < 0 || packed_sequences > kMaxAxis)
      return broken("packed_sequences", packed_sequences, "it must be 0 to 2147483647", "pass 0 for dense");
    const Axes axes{shape[0], shape[1], shape[2], shape[3]};
    OCTET_TRY(check_shape("shape", axes, packed_sequences));
    if (packed_sequences > 0 && shape[0] != 1)
      return broken("shape[0]", shape[0], "it must be 1 where sequences are packed",
                    "pack along the token axis");
    *layout = abi::to_c(quant::layout(axes, checked.value(), packed_sequences));
    return {};
  });
}

int64_t octet_tensor_bytes(const octet_tensor* tensor) {
  if (!tensor || !is_valid(EnumKind::dtype, tensor->dtype)) return -1;
  TensorView x = abi::from_c(*tensor);
  if (std::any_of(x.shape.begin(), x.shape.end(), [](std::int64_t n) { return n < 0; })) return -1;
  if (std::any_of(x.stride.begin(), x.stride.end(), [](std::int64_t n) { return n < 0; })) return -1;
  return offsets_fit(x) ? capi::span_bytes(x) : -1;
}

octet_status octet_quantize(const octet_tensor* x, const octet_operand_recipe* recipe,
                            const octet_packing* packing, const octet_quantized_tensor* out,
                            const octet_parallel_for* parallel_for) {
  return capi::guarded([&]() -> Status { return quantize(x, recipe, packing, out, parallel_for); });
}

octet_status octet_dequantize(const octet_quantized_tensor* x, const octet_packing* packing,
                              const octet_tensor* out, const octet_parallel_for* parallel_for) {
  return capi::guarded([&]() -> Status { return dequantize(x, packing, out, parallel_for); });
}

}  // extern "C"
