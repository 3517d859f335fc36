#include "tests/capi/support.h"

#include <random>
#include <utility>

namespace octet::testing {

Tensor Tensor::normal(const std::array<std::int64_t, 4>& s, std::uint64_t seed) {
  Tensor x(s);
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> n;
  for (float& value : x.data) value = n(bits);
  return x;
}

Call::Call(octet_scheme scheme, std::int64_t tokens_q, std::int64_t tokens_k)
    : q(Tensor::normal({2, 4, tokens_q, 64}, 1)),
      k(Tensor::normal({2, 2, tokens_k, 64}, 2)),
      v(Tensor::normal({2, 2, tokens_k, 32}, 3)),
      o({2, 4, tokens_q, 32}, 7),
      lse({2, 4, tokens_q, 1}, 7) {
  desc.struct_size = sizeof desc;
  args.struct_size = sizeof args;
  aim(q.view(), k.view(), v.view(), o.view(), lse.view());
  (void)octet_attention_desc_init(&desc, scheme, &args.q.codes, &args.k.codes, &args.v.codes);
  desc.wants_lse = 1;
}

void Call::pack(std::vector<std::int32_t> offsets_q, std::vector<std::int32_t> offsets_k) {
  cu_q = std::move(offsets_q), cu_k = std::move(offsets_k);
  const auto packed = [](const Tensor& x) {
    return view_bhsd(x.data.data(), DType::f32, {1, x.shape[1], 2 * x.shape[2], x.shape[3]});
  };
  aim(packed(q), packed(k), packed(v), packed(o), packed(lse));
  desc.batch = 1, desc.tokens_q *= 2, desc.tokens_k *= 2;
  desc.sequences = static_cast<std::int64_t>(cu_q.size()) - 1;
  args.cu_seqlens_q = cu_q.data(), args.cu_seqlens_k = cu_k.data();
}

octet_status Call::plan_it() {
  const octet_status status = octet_plan_create(&plan, &desc, nullptr);
  if (status != OCTET_OK) return status;
  workspace = Workspace::allocate(octet_plan_workspace_bytes(plan)).take();
  args.workspace = workspace.data(), args.workspace_bytes = workspace.bytes();
  return status;
}

void Call::aim(const TensorView& q_view, const TensorView& k_view, const TensorView& v_view,
               const TensorView& o_view, const TensorView& lse_view) {
  args.q.codes = abi::to_c(q_view), args.k.codes = abi::to_c(k_view), args.v.codes = abi::to_c(v_view);
  args.o = abi::to_c(o_view), args.lse = abi::to_c(lse_view);
}

Codes::Codes(const octet_plan* plan, octet_operand which, const Tensor& x) {
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe;
  (void)octet_operand_recipe_of(plan, which, &recipe);
  (void)octet_quantized_layout(x.shape.data(), &recipe, 0, &tensor);
  octet_tensor* parts[] = {&tensor.codes, &tensor.scales, &tensor.channel_exponent, &tensor.mean};
  for (std::size_t i = 0; i < 4; ++i) {
    if (parts[i]->shape[0] == 0) continue;
    memory[i].resize(static_cast<std::size_t>(octet_tensor_bytes(parts[i]) / 8 + 1));
    parts[i]->data = memory[i].data();
  }
  const octet_tensor in = abi::to_c(x.view());
  EXPECT_EQ(octet_quantize(&in, &recipe, nullptr, &tensor, nullptr), OCTET_OK) << octet_last_error();
}

}  // namespace octet::testing
