#include "bench/inputs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace octet::tool {
namespace {

/// Normal values, drawn head by head on all threads: the same for any number of them.
Status draw(HostTensor& tensor, const std::array<std::int64_t, 4>& shape, std::uint64_t seed,
            Threads& threads) {
  Result<HostTensor> made = make_host_tensor(DType::f32, {shape.begin(), shape.end()});
  if (!made.ok()) return made.status();
  tensor = made.take();
  struct Work {
    std::span<float> values;
    std::int64_t stride;
    std::uint64_t seed;
  } work{tensor.values<float>(), shape[2] * shape[3], seed};
  const ParallelFor parallel_for = threads.parallel_for();
  parallel_for.run(
      parallel_for.pool, shape[0] * shape[1],
      [](void* context, std::int64_t head) {
        const Work& w = *static_cast<Work*>(context);
        std::mt19937_64 random(w.seed * 1'000'003 + static_cast<std::uint64_t>(head));
        std::normal_distribution<float> normal;
        for (float& x :
             w.values.subspan(static_cast<std::size_t>(head * w.stride), static_cast<std::size_t>(w.stride)))
          x = normal(random);
      },
      &work);
  return {};
}

constexpr octet_tensor octet_quantized_tensor::*kParts[] = {
    &octet_quantized_tensor::codes, &octet_quantized_tensor::scales,
    &octet_quantized_tensor::channel_exponent, &octet_quantized_tensor::mean};

/// The recipe that a plan has for an operand, and the parts of one of this shape, without memory.
struct CodedLayout {
  octet_operand_recipe recipe{};
  octet_quantized_tensor parts{};
};
Result<CodedLayout> layout_of(const AttentionPlan& plan, octet_operand which, const octet_tensor& x) {
  CodedLayout layout;
  layout.recipe.struct_size = sizeof layout.recipe;
  if (const octet_status s = octet_operand_recipe_of(plan.handle(), which, &layout.recipe); s != OCTET_OK)
    return status_of(s);
  if (const octet_status s = octet_quantized_layout(x.shape, &layout.recipe, 0, &layout.parts); s != OCTET_OK)
    return status_of(s);
  return layout;
}

std::int64_t bytes_of(const octet_quantized_tensor& parts) {
  std::int64_t bytes = 0;
  for (const auto part : kParts)
    if ((parts.*part).shape[0] != 0) bytes += octet_tensor_bytes(&(parts.*part));
  return bytes;
}

class Coder {
 public:
  Coder(const AttentionPlan& plan, Threads& threads, Operands& operands)
      : plan_(plan), threads_(threads), operands_(operands) {}

  Result<QuantizedTensor> code(octet_operand which, const TensorView& x) {
    const octet_tensor in = abi::to_c(x);
    const octet_parallel_for parallel_for = abi::to_c(threads_.parallel_for());
    Result<CodedLayout> layout = layout_of(plan_, which, in);
    if (!layout.ok()) return layout.status();
    auto& [recipe, parts] = layout.value();
    if (Status s = place(parts); !s.ok()) return s;
    if (const octet_status s = octet_quantize(&in, &recipe, nullptr, &parts, &parallel_for); s != OCTET_OK)
      return status_of(s);
    return abi::from_c(parts);
  }

  /// The same values in memory of their own.
  Result<QuantizedTensor> copy(const QuantizedTensor& x) {
    octet_quantized_tensor parts = abi::to_c(x);
    const octet_quantized_tensor from = parts;
    if (Status s = place(parts); !s.ok()) return s;
    for (const auto part : kParts) {
      const octet_tensor& source = from.*part;
      if (source.data)
        std::memcpy((parts.*part).data, source.data, static_cast<std::size_t>(octet_tensor_bytes(&source)));
    }
    return abi::from_c(parts);
  }

 private:
  Status place(octet_quantized_tensor& parts) {
    for (const auto part : kParts) {
      octet_tensor& tensor = parts.*part;
      if (tensor.shape[0] == 0) continue;
      Result<HostTensor> made = make_host_tensor(DType::u8, {octet_tensor_bytes(&tensor)});  // of any dtype
      if (!made.ok()) return made.status();
      operands_.memory.push_back(made.take());
      tensor.data = operands_.memory.back().bytes.data();
    }
    return {};
  }

  const AttentionPlan& plan_;
  Threads& threads_;
  Operands& operands_;
};

}  // namespace

Result<CpuInputs> draw_inputs(const CpuWorkload& w, std::uint64_t seed, Threads& threads) {
  CpuInputs in;
  const std::array<std::int64_t, 4> q{w.batch, w.heads_q, w.tokens_q, w.head_dim};
  const std::array<std::int64_t, 4> k{w.batch, w.heads_kv, w.tokens_k, w.head_dim};
  const std::array<std::int64_t, 4> bias{1, w.heads_q, w.tokens_q, w.tokens_k};
  threads.announce({});
  if (Status s = draw(in.q_tensor, q, 3 * seed, threads); !s.ok()) return s;
  if (Status s = draw(in.k_tensor, k, 3 * seed + 1, threads); !s.ok()) return s;
  if (Status s = draw(in.v_tensor, k, 3 * seed + 2, threads); !s.ok()) return s;
  in.q = view_bhsd(in.q_tensor.bytes.data(), DType::f32, q);
  in.k = view_bhsd(in.k_tensor.bytes.data(), DType::f32, k);
  in.v = view_bhsd(in.v_tensor.bytes.data(), DType::f32, k);
  if (w.biased) {
    if (Status s = draw(in.bias_tensor, bias, 3 * seed + 3, threads); !s.ok()) return s;
    in.bias = view_bhsd(in.bias_tensor.bytes.data(), DType::f32, bias);
  }
  return in;
}

Result<std::int64_t> coded_kv_bytes(const CpuInputs& inputs, const AttentionPlan& plan) {
  const Result<CodedLayout> k = layout_of(plan, OCTET_K, abi::to_c(inputs.k)),
                            v = layout_of(plan, OCTET_V, abi::to_c(inputs.v));
  for (const auto* made : {&k, &v})
    if (!made->ok()) return made->status();
  return bytes_of(k.value().parts) + bytes_of(v.value().parts);
}

Operands plain_operands(const CpuInputs& inputs) {
  Operands operands;
  operands.q.codes = inputs.q;
  operands.k.resize(1), operands.v.resize(1);
  operands.k[0].codes = inputs.k, operands.v[0].codes = inputs.v;
  operands.kv_bytes = bytes_of(abi::to_c(operands.k[0])) + bytes_of(abi::to_c(operands.v[0]));
  return operands;
}

Result<Operands> narrow_operands(const CpuInputs& inputs, DType dtype) {
  Operands operands;
  operands.k.resize(1), operands.v.resize(1), operands.input = dtype;
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe, recipe.format = static_cast<octet_dtype>(dtype);
  const std::pair<const TensorView*, QuantizedTensor*> each[] = {
      {&inputs.q, &operands.q}, {&inputs.k, &operands.k[0]}, {&inputs.v, &operands.v[0]}};
  for (const auto& [x, narrow] : each) {
    Result<HostTensor> made = make_host_tensor(dtype, {x->shape.begin(), x->shape.end()});
    if (!made.ok()) return made.status();
    operands.memory.push_back(made.take());
    narrow->codes = view_bhsd(operands.memory.back().bytes.data(), dtype, x->shape);
    const octet_tensor in = abi::to_c(*x);
    const octet_quantized_tensor out = abi::to_c(*narrow);
    if (const octet_status s = octet_quantize(&in, &recipe, nullptr, &out, nullptr); s != OCTET_OK)
      return status_of(s);
  }
  operands.kv_bytes = bytes_of(abi::to_c(operands.k[0])) + bytes_of(abi::to_c(operands.v[0]));
  return operands;
}

Result<Operands> coded_operands(const CpuInputs& inputs, const AttentionPlan& plan, Kind kind,
                                Threads& threads) {
  Operands operands;
  threads.announce({});
  Coder coder(plan, threads, operands);
  Result<QuantizedTensor> q = coder.code(OCTET_Q, inputs.q), k = coder.code(OCTET_K, inputs.k),
                          v = coder.code(OCTET_V, inputs.v);
  for (const auto* made : {&q, &k, &v})
    if (!made->ok()) return made->status();
  operands.q = q.take();
  operands.k.push_back(k.take()), operands.v.push_back(v.take());
  operands.input = operands.q.codes.dtype;
  operands.kv_bytes = bytes_of(abi::to_c(operands.k[0])) + bytes_of(abi::to_c(operands.v[0]));
  while (kind == Kind::decode &&
         static_cast<std::int64_t>(operands.k.size()) * operands.kv_bytes < kColdBytes) {
    Result<QuantizedTensor> k_copy = coder.copy(operands.k[0]), v_copy = coder.copy(operands.v[0]);
    if (!k_copy.ok()) return k_copy.status();
    if (!v_copy.ok()) return v_copy.status();
    operands.k.push_back(k_copy.take()), operands.v.push_back(v_copy.take());
  }
  return operands;
}

}  // namespace octet::tool
