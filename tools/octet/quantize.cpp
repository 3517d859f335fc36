// octet quantize: the codes, scales, exponents and means that a scheme's kernel would get, as a file.
#include <memory>

#include "commands.h"
#include "common/format.h"
#include "common/output_file.h"
#include "common/problem_options.h"
#include "common/real.h"
#include "common/recipe_text.h"
#include "common/run.h"
#include "common/sentence.h"
#include "common/table.h"
#include "io/safetensors.h"

namespace octet::tool {
namespace {

struct Options {
  InputOptions input;
  ProblemOptions problem;
  std::string output;
  bool json = false;
  int threads = 0;
};

/// One operand as codes, and what quantising it cost.
struct Quantized {
  const char* name;
  octet_operand_recipe recipe{};
  octet_quantized_tensor parts{};
  HostTensor codes, scales, channel_exponent, mean;  ///< no values where the recipe has no such tensor
  std::int64_t input_bytes = 0, bytes = 0;
  ErrorSums errors;  ///< of the codes' reals against the input
};

struct Source {
  const char* name;
  octet_operand operand;
  const TensorView& view;
  const std::int32_t* cu_seqlens;
};

/// Memory for one part of a layout. An axis along which the part is shared (stride 0) is stored once.
Status allocate(octet_tensor& part, HostTensor& to) {
  if (part.shape[0] == 0) return {};
  std::vector<std::int64_t> shape(part.shape, part.shape + 4);
  for (std::size_t a = 0; a < shape.size(); ++a) {
    if (part.stride[a] == 0) shape[a] = 1;
  }
  DType dtype = static_cast<DType>(part.dtype);
  if (dtype == DType::s4) {
    dtype = DType::u8;  // two codes a byte
    shape[3] = part.stride[2] / 2;
  }
  Result<HostTensor> made = make_host_tensor(dtype, std::move(shape));
  if (!made.ok()) return made.status();
  to = made.take();
  part.data = to.bytes.data();
  return {};
}

/// Errors of the codes' real values against x.
Status measure(const Source& source, const octet_packing& packing, Threads& threads, Quantized& q) {
  const TensorView& x = source.view;
  Result<HostTensor> made = make_host_tensor(DType::f32, {x.shape.begin(), x.shape.end()});
  if (!made.ok()) return made.status();
  const HostTensor& real = made.value();
  const octet_tensor out = abi::to_c(view_bhsd(real.bytes.data(), DType::f32, x.shape));
  const octet_parallel_for parallel_for = abi::to_c(threads.parallel_for());
  if (const octet_status code = octet_dequantize(&q.parts, &packing, &out, &parallel_for); code != OCTET_OK)
    return status_of(code);
  std::int64_t i = 0;
  for (std::int64_t b = 0; b < x.shape[0]; ++b) {
    for (std::int64_t h = 0; h < x.shape[1]; ++h) {
      for (std::int64_t t = 0; t < x.shape[2]; ++t) {
        const std::int64_t row = b * x.stride[0] + h * x.stride[1] + t * x.stride[2];
        for (std::int64_t c = 0; c < x.shape[3]; ++c)
          q.errors.add(static_cast<double>(real_at(real, i++)), real_at(x.data, x.dtype, row + c));
      }
    }
  }
  return {};
}

Result<Quantized> quantize(const Prepared& prepared, const Source& source, Threads& threads) {
  Quantized q;
  q.name = source.name;
  q.recipe.struct_size = sizeof q.recipe;
  if (const octet_status code = octet_operand_recipe_of(prepared.plan.handle(), source.operand, &q.recipe);
      code != OCTET_OK)
    return status_of(code);
  const octet_packing packing{prepared.desc.sequences, source.cu_seqlens};
  const octet_tensor x = abi::to_c(source.view);
  if (const octet_status code = octet_quantized_layout(x.shape, &q.recipe, packing.sequences, &q.parts);
      code != OCTET_OK)
    return status_of(code);
  for (auto [part, tensor] :
       {std::pair{&q.parts.codes, &q.codes}, std::pair{&q.parts.scales, &q.scales},
        std::pair{&q.parts.channel_exponent, &q.channel_exponent}, std::pair{&q.parts.mean, &q.mean}}) {
    if (Status s = allocate(*part, *tensor); !s.ok()) return s;
    q.bytes += static_cast<std::int64_t>(tensor->bytes.size());
  }
  q.input_bytes = element_bytes(source.view.dtype) * source.view.shape[0] * source.view.shape[1] *
                  source.view.shape[2] * source.view.shape[3];
  threads.announce(std::string("quantising ") + source.name);
  const octet_parallel_for parallel_for = abi::to_c(threads.parallel_for());
  if (const octet_status code = octet_quantize(&x, &q.recipe, &packing, &q.parts, &parallel_for);
      code != OCTET_OK)
    return status_of(code);
  if (Status s = measure(source, packing, threads, q); !s.ok()) return s;
  return q;
}

const char* format_of(const Quantized& q) { return enum_name(OCTET_ENUM_DTYPE, q.recipe.format); }

void add_to_file(Quantized& q, TensorFile& file) {
  const std::string name = q.name;
  file.metadata[name + "_format"] = format_of(q);
  file.metadata[name + "_tokens_per_scale"] = fmt::format("{}", q.parts.tokens_per_scale);
  file.metadata[name + "_channels_per_scale"] = fmt::format("{}", q.parts.channels_per_scale);
  file.metadata[name + "_rotate"] = enum_name(OCTET_ENUM_ROTATE, q.parts.rotate);
  if (q.parts.rotate == OCTET_ON)
    file.metadata[name + "_rotation_seed"] = fmt::format("{}", q.parts.rotation_seed);
  file.tensors[name] = std::move(q.codes);
  if (q.parts.scales.data) file.tensors[name + "_scales"] = std::move(q.scales);
  if (q.parts.channel_exponent.data) file.tensors[name + "_channel_exponent"] = std::move(q.channel_exponent);
  if (q.parts.mean.data) file.tensors[name + "_mean"] = std::move(q.mean);
}

Json operand_json(const Quantized& q) {
  Json json;
  json["format"] = format_of(q);
  json["shape"] = q.codes.shape;
  json["scales_shape"] = q.parts.scales.data ? Json(q.scales.shape) : Json(nullptr);
  json["tokens_per_scale"] = q.parts.tokens_per_scale;
  json["channels_per_scale"] = q.parts.channels_per_scale;
  json["input_bytes"] = q.input_bytes, json["bytes"] = q.bytes;
  json["relative_rmse"] = q.errors.relative_rmse();
  json["max_abs_error"] = q.errors.max_abs_error();
  json["sqnr_db"] = q.errors.sqnr_db();
  return json;
}

Json document(const Options& options, const AttentionDesc& desc, const std::vector<Quantized>& all) {
  Json json;
  json["scheme"] = name_of(desc.scheme);
  json["recipe"] = recipe_json(desc.scheme, desc.recipe);
  json["key_block"] = desc.key_block;
  json["output"] = options.output;
  for (const Quantized& q : all) json["operands"][q.name] = operand_json(q);
  return json;
}

std::string text(const Options& options, const AttentionDesc& desc, const std::vector<Quantized>& all) {
  Table table({{"operand", Align::left},
               {"format", Align::left},
               {"shape", Align::left},
               {"scales", Align::left},
               {"bytes"},
               {"of input"},
               {"relative RMSE"},
               {"max error"}});
  for (const Quantized& q : all) {
    table.add({q.name, format_of(q), shape_text(q.codes.shape),
               q.parts.scales.data ? shape_text(q.scales.shape) : kNoFigure, bytes_text(q.bytes),
               percent(static_cast<double>(q.bytes) / static_cast<double>(q.input_bytes)),
               percent(q.errors.relative_rmse()), significant(q.errors.max_abs_error())});
  }
  return fmt::format("scheme  {}, recipe {}\noutput  {}\n\n{}", name_of(desc.scheme),
                     recipe_text(desc.scheme, desc.recipe), options.output, table.text());
}

Status check_output(const std::string& path) {
  if (path.empty())
    return broken("--output", "missing", "the codes must go somewhere", "pass --output FILE.safetensors");
  if (Status s = check_output_path(path); !s.ok()) return s;
  if (file_kind(path) == FileKind::safetensors) return {};
  return broken("--output", in_quotes(path), "codes and scales are several tensors",
                "name a .safetensors file");
}

Status write(const Options& options, const AttentionDesc& desc, std::vector<Quantized>& all) {
  TensorFile file;
  file.metadata = {{"octet", octet_version()},
                   {"scheme", name_of(desc.scheme)},
                   {"recipe", recipe_text(desc.scheme, desc.recipe)},
                   {"key_block", fmt::format("{}", desc.key_block)},
                   {"head_dim", fmt::format("{}", desc.head_dim)},
                   {"head_dim_v", fmt::format("{}", desc.head_dim_v)},
                   {"axes", "batch, head, token, dim"}};
  for (Quantized& q : all) add_to_file(q, file);
  return write_safetensors(options.output, file);
}

Status run(const Options& options) {
  if (Status s = check_output(options.output); !s.ok()) return s;
  Result<ProblemInput> loaded = load_problem(options.input);
  if (!loaded.ok()) return loaded.status();
  const ProblemInput& input = loaded.value();
  Result<AttentionDesc> desc = make_desc(options.problem, input, Lse::not_wanted);
  if (!desc.ok()) return desc.status();
  Result<AttentionPlan> plan = AttentionPlan::create(desc.value());
  if (!plan.ok()) return plan.status();
  const Prepared prepared{plan.take(), {}, desc.value()};
  Threads threads(options.threads);
  std::vector<Quantized> all;
  for (const Source& source :
       {Source{"q", OCTET_Q, input.q, input.cu_seqlens_q}, Source{"k", OCTET_K, input.k, input.cu_seqlens_k},
        Source{"v", OCTET_V, input.v, input.cu_seqlens_k}}) {
    Result<Quantized> q = quantize(prepared, source, threads);
    if (!q.ok()) return q.status();
    all.push_back(q.take());
  }
  // note: both are made before the codes move into the file, and printed once it is written.
  const std::string told = options.json ? std::string() : text(options, desc.value(), all);
  const Json json = options.json ? document(options, desc.value(), all) : Json();
  if (Status s = write(options, desc.value(), all); !s.ok()) return s;
  return options.json ? print_json(json) : print(told);
}

}  // namespace

void add_quantize(CommandLine& line) {
  auto options = std::make_shared<Options>();
  Arguments command = line.command("quantize", "Q, K and V as the codes and scales of a scheme",
                                   [options] { return run(*options); });
  add_input_options(command, options->input);
  add_recipe_options(command, options->problem);
  command.option("--output", "FILE", options->output, "Where q, q_scales, k, k_mean, ... go");
  add_threads_option(command, options->threads);
  add_json_option(command, options->json);
}

}  // namespace octet::tool
