#include "capi/operands.h"

#include <algorithm>

#include "core/schemes.h"
#include "cuda/quant/quantize.h"

namespace octet::capi {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr float kQattnCodes = 127.5f;  // QAttn divides by amax / 127.5 and clamps to +-127
// V's token scales are folded into P: a zero token would lose its softmax mass without a floor. 2^-20 of the
// block's largest keeps 127 * 2^-20 of an error below f32's own; integer has 8 octaves of V in its exponent.
constexpr int kBlockFloorOctaves = 20, kIntegerBlockFloorOctaves = 8;

quant::OperandRecipe recipe_of(DType format, Granularity granularity, const AttentionDesc& desc) {
  quant::OperandRecipe r;
  r.format = format;
  r.granularity = granularity;
  r.block = desc.key_block;
  r.largest_code = desc.scheme == Scheme::qattn ? kQattnCodes : largest_code(format);
  return r;
}

/// Places tensors one after another.
class Arena {
 public:
  /// Gives x, if it has a shape, the next aligned offset as its data.
  void place(TensorView& x) {
    if (x.shape == std::array<std::int64_t, 4>{}) return;
    x.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(place(span_bytes(x))));
  }
  /// The offset of so many bytes.
  std::int64_t place(std::int64_t bytes) {
    const std::int64_t at = end_;
    end_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  void place(QuantizedTensor& x) {
    place(x.codes);
    place(x.scales);
    place(x.channel_exponent);
    place(x.mean);
  }
  std::int64_t bytes() const { return end_; }

 private:
  std::int64_t end_ = 0;
};

/// One operand: plain where the kernel reads it so, else what the quantiser writes.
OperandPlan lay_out(const AttentionDesc& desc, const std::array<std::int64_t, 4>& shape,
                    const quant::OperandRecipe& recipe, Arena& arena) {
  OperandPlan out;
  out.prequantized = takes_codes(desc);
  if (!out.prequantized && reads_input(desc, recipe.format)) return out;
  out.layout = quant::layout(shape, recipe, desc.sequences);
  for (TensorView* x :
       {&out.layout.codes, &out.layout.scales, &out.layout.channel_exponent, &out.layout.mean})
    x->device = desc.device;
  if (!out.prequantized) arena.place(out.layout);
  return out;
}

/// Whether the kernel that packs V makes f16 of bf16 on the way, so that nobody else reads and writes it.
bool converts_as_it_packs(const AttentionDesc& desc, const quant::OperandRecipe& v) {
  return desc.device == Device::cuda && !takes_codes(desc) && desc.input == DType::bf16 &&
         v.format == DType::f16 && v.equalise == Equalise::off;
}

TensorView contiguous_f32(const std::array<std::int64_t, 4>& shape) {
  TensorView x;
  x.shape = shape;
  x.stride = {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
  return x;
}

/// What the quantiser on the GPU needs besides what it writes.
void lay_out_scratch(const Plan& plan, const OperandRecipes& recipes, CallLayout& call, Arena& arena) {
  const AttentionDesc& d = plan.desc;
  std::int64_t bytes = 0;
  const auto grow = [&](const OperandPlan& x, const quant::OperandRecipe& recipe,
                        const std::array<std::int64_t, 4>& shape) {
    if (x.prequantized || x.layout.codes.shape == std::array<std::int64_t, 4>{}) return;
    bytes += cuda::quantize_scratch_bytes(shape, recipe, d.sequences);
  };
  grow(plan.q, recipes.q, {d.batch, d.heads_q, d.tokens_q, d.head_dim});
  grow(plan.k, recipes.k, {d.batch, d.heads_kv, d.tokens_k, d.head_dim});
  grow(plan.v, recipes.v, {d.batch, d.heads_kv, d.tokens_k, d.head_dim_v});
  if (call.q_dequantized.shape != std::array<std::int64_t, 4>{}) {
    const Sequences queries{d.sequences > 0 ? d.sequences : d.batch, d.tokens_q, nullptr};
    bytes = std::max(bytes, cuda::dequantize_scratch_bytes(queries));
  }
  call.scratch = arena.place(bytes);
  if (d.scheme == Scheme::qattn) call.shared_amax = arena.place(sizeof(float));
}

}  // namespace

float largest_code(DType format) {
  switch (format) {
    case DType::s4:
      return 7;
    case DType::e4m3:
      return 448;
    case DType::e5m2:
      return 57344;
    default:
      return 127;
  }
}

std::int64_t span_bytes(const TensorView& x) {
  std::int64_t last = 0;
  for (std::size_t a = 0; a < 4; ++a) {
    if (x.shape[a] == 0) return 0;
    last += (x.shape[a] - 1) * x.stride[a];
  }
  return x.dtype == DType::s4 ? last / 2 + 1 : (last + 1) * bytes_of(x.dtype);
}

OperandRecipes operand_recipes(const AttentionDesc& desc) {
  const SchemeInfo& info = scheme_info(desc.scheme);
  const Recipe& recipe = desc.recipe;
  OperandRecipes r{recipe_of(info.qk, recipe.q, desc), recipe_of(info.qk, recipe.k, desc),
                   recipe_of(info.v, recipe.v, desc)};
  r.q.rotate = r.k.rotate = recipe.rotate;
  r.q.rotation_seed = r.k.rotation_seed = recipe.rotation_seed;
  r.k.smooth = recipe.smooth;
  r.v.equalise = recipe.equalise;
  const bool is_integer = desc.scheme == Scheme::integer;
  if (recipe.v == Granularity::token) {
    r.v.block_floor_octaves = is_integer ? kIntegerBlockFloorOctaves : kBlockFloorOctaves;
  }
  if (is_integer && (recipe.v == Granularity::token || recipe.v == Granularity::block)) {
    r.v.rule =
        quant::ScaleRule::sixteenths;  // P carries V's scale, the row sum a whole multiple of its inverse
  }
  return r;
}

bool reads_input(const AttentionDesc& desc, DType format) {
  return desc.scheme == Scheme::exact || desc.input == format;
}

bool shifts_lse(const AttentionDesc& desc) { return desc.wants_lse && desc.recipe.smooth != Smooth::none; }

CallLayout lay_out(Plan& plan) {
  const AttentionDesc& d = plan.desc;
  const OperandRecipes recipes = operand_recipes(d);
  Arena arena;
  plan.q = lay_out(d, {d.batch, d.heads_q, d.tokens_q, d.head_dim}, recipes.q, arena);
  if (plan.keys == Plan::Keys::cache) {
    plan.k = plan.v = {};
  } else {
    plan.k = lay_out(d, {d.batch, d.heads_kv, d.tokens_k, d.head_dim}, recipes.k, arena);
    if (!converts_as_it_packs(d, recipes.v))
      plan.v = lay_out(d, {d.batch, d.heads_kv, d.tokens_k, d.head_dim_v}, recipes.v, arena);
  }
  CallLayout call;
  if (shifts_lse(d)) {
    call.q_anchor = contiguous_f32({d.batch, d.heads_q, d.tokens_q, 1});
    call.q_anchor.device = d.device;
    arena.place(call.q_anchor);
    if (takes_codes(d)) {
      call.q_dequantized = contiguous_f32({d.batch, d.heads_q, d.tokens_q, d.head_dim});
      call.q_dequantized.device = d.device;
      arena.place(call.q_dequantized);
    }
  }
  if (d.device == Device::cuda) lay_out_scratch(plan, recipes, call, arena);
  plan.kernel_offset = arena.bytes();
  plan.workspace_bytes = arena.bytes() + plan.kernel_bytes;
  return call;
}

}  // namespace octet::capi
