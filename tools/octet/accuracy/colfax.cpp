#include "accuracy/colfax.h"

#include <fmt/format.h>

#include <utility>

namespace octet::tool {
namespace {

constexpr std::int64_t kKeys = 4096;

/// A tensor cast to a code format with scale 1, and the numbers that its codes stand for.
struct Cast {
  std::vector<std::byte> codes;
  std::vector<float> scales, numbers;
  QuantizedTensor tensor;
};

/// e4m3 without a scale: the shared largest value is the largest code.
Status cast_e4m3(const TensorView& x, Cast& out) {
  constexpr float kLargestE4M3 = 448;
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe;
  recipe.format = OCTET_E4M3, recipe.granularity = OCTET_PER_HEAD;
  recipe.largest_code = recipe.shared_amax = kLargestE4M3;
  octet_quantized_tensor layout{};
  if (const octet_status code = octet_quantized_layout(x.shape.data(), &recipe, 0, &layout); code != OCTET_OK)
    return status_of(code);
  out.codes.resize(static_cast<std::size_t>(octet_tensor_bytes(&layout.codes)));
  out.scales.resize(static_cast<std::size_t>(octet_tensor_bytes(&layout.scales)) / sizeof(float));
  layout.codes.data = out.codes.data(), layout.scales.data = out.scales.data();
  const octet_tensor plain = abi::to_c(x);
  if (const octet_status code = octet_quantize(&plain, &recipe, nullptr, &layout, nullptr); code != OCTET_OK)
    return status_of(code);
  out.numbers.resize(out.codes.size());
  const octet_tensor numbers = abi::to_c(view_bhsd(out.numbers.data(), DType::f32, x.shape));
  out.tensor = std::bit_cast<QuantizedTensor>(layout);
  return status_of(octet_dequantize(&layout, nullptr, &numbers, nullptr));
}

/// The same numbers, which fit, in f16.
Status convert_to_f16(const TensorView& x, Cast& out) {
  octet_operand_recipe recipe{};
  recipe.struct_size = sizeof recipe;
  recipe.format = OCTET_F16;
  out.tensor.codes = view_bhsd(nullptr, DType::f16, x.shape);
  out.codes.resize(static_cast<std::size_t>(x.shape[0] * x.shape[1] * x.shape[2] * x.shape[3]) *
                   sizeof(std::uint16_t));
  out.tensor.codes.data = out.codes.data();
  const octet_tensor plain = abi::to_c(x);
  const octet_quantized_tensor converted = abi::to_c(out.tensor);
  return status_of(octet_quantize(&plain, &recipe, nullptr, &converted, nullptr));
}

/// q, k and v of one seed as one of Colfax's kernels gets them.
struct Inputs {
  Data data;             // f32, or rounded to f16
  Cast q, k, v;          // where cast
  ProblemInput numbers;  // what the kernel's inputs stand for
};

Status cast_inputs(Inputs& in, Scheme scheme) {
  if (scheme == Scheme::f16) return {};
  if (Status s = cast_e4m3(in.numbers.q, in.q); !s.ok()) return s;
  if (Status s = cast_e4m3(in.numbers.k, in.k); !s.ok()) return s;
  in.numbers.q.data = in.q.numbers.data(), in.numbers.k.data = in.k.numbers.data();
  if (scheme == Scheme::fp8_hybrid) return convert_to_f16(in.numbers.v, in.v);
  if (Status s = cast_e4m3(in.numbers.v, in.v); !s.ok()) return s;
  in.numbers.v.data = in.v.numbers.data();
  return {};
}

/// One kernel's f16 output as numbers in `output`.
Result<Output> run(const Inputs& in, Scheme scheme) {
  Result<AttentionDesc> described = describe(scheme, in.numbers.q, in.numbers.k, in.numbers.v);
  if (!described.ok()) return described.status();
  AttentionDesc desc = described.take();
  desc.output = DType::f16;
  if (scheme != Scheme::f16) desc.input = DType::e4m3;
  Result<Prepared> prepared = prepare(desc, kMeasuredBackend);
  if (!prepared.ok()) return prepared.status();
  const std::array<std::int64_t, 4> shape = {desc.batch, desc.heads_q, desc.tokens_q, desc.head_dim_v};
  Result<HostTensor> o = make_host_tensor(DType::f16, {shape.begin(), shape.end()});
  if (!o.ok()) return o.status();
  Output output;
  output.o = o.take();
  output.view = view_bhsd(output.o.bytes.data(), DType::f16, shape);
  Threads one(1);
  AttentionArgs args;
  args.o = output.view, args.parallel_for = one.parallel_for();
  args.workspace = prepared.value().workspace.data(),
  args.workspace_bytes = prepared.value().workspace.bytes();
  const auto operand = [](const Cast& cast, const TensorView& plain) {
    if (cast.tensor.codes.data) return cast.tensor;
    QuantizedTensor x;
    x.codes = plain;
    return x;
  };
  args.q = operand(in.q, in.numbers.q), args.k = operand(in.k, in.numbers.k);
  args.v = operand(in.v, in.numbers.v);
  if (Status s = prepared.value().plan.run(args); !s.ok()) return s;
  return output;
}

/// Errors of one seed against the numbers that the kernel got, and against those before the cast.
struct Errors {
  ErrorSums cast, uncast;
};
Result<Errors> errors_of(const DataSpec& spec, Scheme scheme) {
  Inputs in;
  in.data = generate(spec);
  const auto view = [&](const std::vector<float>& x, std::int64_t tokens) {
    return view_bhsd(x.data(), DType::f32, {1, spec.heads, tokens, spec.dim});
  };
  in.numbers.q = view(in.data.q, spec.queries);
  in.numbers.k = view(in.data.k, spec.keys), in.numbers.v = view(in.data.v, spec.keys);
  Result<AttentionDesc> desc = describe(Scheme::f32, in.numbers.q, in.numbers.k, in.numbers.v);
  if (!desc.ok()) return desc.status();
  Threads one(1);
  Result<Output> uncast = attend_exactly(desc.value(), in.numbers, one);
  if (!uncast.ok()) return uncast.status();
  if (Status s = cast_inputs(in, scheme); !s.ok()) return s;
  Result<Output> cast = attend_exactly(desc.value(), in.numbers, one);
  if (!cast.ok()) return cast.status();
  Result<Output> output = run(in, scheme);
  if (!output.ok()) return output.status();
  return Errors{pooled(compare(output.value(), cast.value(), {})),
                pooled(compare(output.value(), uncast.value(), {}))};
}

Result<Json> run_dim(const SuiteSize& size, std::int64_t dim) {
  Json document;
  document["name"] = fmt::format("colfax/d{}", dim);
  document["data"] = {{"distribution", "normal"}, {"queries", size.queries}, {"keys", kKeys}, {"dim", dim}};
  document["seeds"] = size.seeds;
  for (const Scheme scheme : {Scheme::f16, Scheme::fp8_hybrid, Scheme::fp8}) {
    std::vector<ErrorSums> cast, uncast;
    for (int seed = 1; seed <= size.seeds; ++seed) {
      DataSpec spec;
      spec.queries = size.queries, spec.keys = kKeys, spec.dim = dim;
      spec.seed = static_cast<std::uint64_t>(seed), spec.as_f16 = true;
      Result<Errors> errors = errors_of(spec, scheme);
      if (!errors.ok()) return errors.status();
      cast.push_back(errors.value().cast), uncast.push_back(errors.value().uncast);
    }
    const std::string name = octet::name_of(scheme);
    Json row = {{"name", name}, {"scheme", name}};
    row.update(pooled_figures(cast));
    document["rows"].push_back(row);
    if (scheme == Scheme::f16) continue;
    row["name"] = name + ", against uncast inputs";
    row.update(pooled_figures(uncast));
    document["rows"].push_back(row);
  }
  return document;
}

}  // namespace

Result<std::vector<Json>> run_colfax(const SuiteSize& size, int threads) {
  (void)threads;  // note: a few seconds in all
  std::vector<Json> documents;
  if (size.longest < kKeys) return documents;
  for (const std::int64_t dim : {64, 128, 256}) {
    Result<Json> document = run_dim(size, dim);
    if (!document.ok()) return document.status();
    documents.push_back(document.take());
  }
  return documents;
}

}  // namespace octet::tool
