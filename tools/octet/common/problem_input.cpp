#include "common/problem_input.h"

#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "common/real.h"
#include "common/sentence.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "octet/octet.hpp"

namespace octet::tool {
namespace {

using Tensors = std::map<std::string, HostTensor>;

/// The tensors by name, and how a message calls each: `q in "file"`.
struct Loaded {
  Tensors tensors;
  std::map<std::string, std::string> titles;
};

Result<Loaded> load_safetensors(const std::string& path) {
  Result<TensorFile> file = read_safetensors(path);
  if (!file.ok()) return file.status();
  Loaded loaded{std::move(file.value().tensors), {}};
  for (const auto& [name, tensor] : loaded.tensors) loaded.titles[name] = name + " in " + in_quotes(path);
  return loaded;
}

Result<Loaded> load_npy(const InputOptions& options) {
  Loaded loaded;
  const std::array<std::pair<const char*, const std::string*>, 3> files{
      {{"q", &options.q}, {"k", &options.k}, {"v", &options.v}}};
  for (const auto& [name, path] : files) {
    if (path->empty()) {
      return broken(std::string("--") + name, "missing", "q, k and v come in three files",
                    "pass all of --q, --k and --v, or one safetensors file by --input");
    }
    Result<HostTensor> tensor = read_npy(*path);
    if (!tensor.ok()) return tensor.status();
    loaded.tensors[name] = tensor.take();
    loaded.titles[name] = std::string(name) + " in " + in_quotes(*path);
  }
  return loaded;
}

Result<Loaded> load_files(const InputOptions& options) {
  const bool by_npy = !options.q.empty() || !options.k.empty() || !options.v.empty();
  if (options.input.empty() == by_npy) return by_npy ? load_npy(options) : load_safetensors(options.input);
  return broken("the input", by_npy ? "given twice" : "missing", "it is one file, or one each for q, k and v",
                "pass --input FILE.safetensors, or --q, --k and --v with .npy files");
}

std::string listed_names(const Tensors& tensors) {
  constexpr std::size_t kMost = 8;  // a checkpoint may hold thousands
  std::string names;
  std::size_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    if (++count > kMost) return names + ", ...";
    names += (names.empty() ? "" : ", ") + in_quotes(name);
  }
  return names.empty() ? "no tensor" : names;
}

bool is_real(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

/// "[0, 1, 2, 3]" of a position in C order.
std::string index_text(const HostTensor& tensor, std::int64_t at) {
  std::vector<std::int64_t> index(tensor.shape.size());
  for (std::size_t a = index.size(); a-- > 0;) {
    index[a] = at % tensor.shape[a];
    at /= tensor.shape[a];
  }
  return shape_text(index);
}

enum class Infinity { refused, hides_keys };  // of an additive mask

Status check_finite(const HostTensor& tensor, const std::string& title, Infinity infinity) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const float x = real_at(tensor, i);
    if (std::isfinite(x) || (infinity == Infinity::hides_keys && x == -INFINITY)) continue;
    return broken(fmt::format("element {} of {}", index_text(tensor, i), title), fmt::format("{}", x),
                  "values must be finite numbers",
                  "mend the tensor, or pass --allow-non-finite to see what the scheme makes of it");
  }
  return {};
}

Status check_operand(const HostTensor& tensor, const std::string& title, const InputOptions& options) {
  if (!is_real(tensor.dtype)) {
    return broken("the dtype of " + title, dtype_name(tensor.dtype), "it must be f32, f16 or bf16",
                  "convert the tensor before you save it");
  }
  constexpr std::size_t kAxes = 4;
  if (tensor.shape.size() != kAxes) {
    return broken("the shape of " + title, shape_text(tensor.shape), "it must have four axes",
                  "save it as [batch, heads, tokens, dim], with axes of 1 where there is nothing");
  }
  for (std::int64_t size : tensor.shape) {
    if (size > 0) continue;
    return broken("the shape of " + title, shape_text(tensor.shape), "no axis may be empty",
                  "pass at least one batch entry, head, token and channel");
  }
  return options.allow_non_finite ? Status{} : check_finite(tensor, title, Infinity::refused);
}

/// Moves the tensor called `name` out of the file, checked.
Status take_operand(Loaded& loaded, const char* name, const InputOptions& options, HostTensor& to) {
  const auto found = loaded.tensors.find(name);
  if (found == loaded.tensors.end()) {
    return broken(fmt::format("tensor {} of {}", name, in_quotes(options.input)), "missing",
                  "the file must hold q, k and v",
                  "it has " + listed_names(loaded.tensors) + ": rename them");
  }
  if (Status s = check_operand(found->second, loaded.titles[name], options); !s.ok()) return s;
  to = std::move(found->second);
  return {};
}

TensorView view_of(const HostTensor& tensor, Layout layout) {
  const auto& s = tensor.shape;
  if (layout == Layout::bhsd) return view_bhsd(tensor.bytes.data(), tensor.dtype, {s[0], s[1], s[2], s[3]});
  return view_bshd(tensor.bytes.data(), tensor.dtype, {s[0], s[2], s[1], s[3]});
}

Status take_mask(Loaded& loaded, const InputOptions& options, ProblemInput& problem) {
  const auto found = loaded.tensors.find("mask");
  if (found == loaded.tensors.end()) return {};
  const HostTensor& mask = found->second;
  const std::string& title = loaded.titles["mask"];
  if (mask.dtype != DType::boolean && !is_real(mask.dtype)) {
    return broken("the dtype of " + title, dtype_name(mask.dtype),
                  "a mask is bool (true: visible), or f32, f16 or bf16 (added to the scores)", "convert it");
  }
  std::array<std::int64_t, 4> shape{1, 1, 1, 1};
  if (mask.shape.size() > shape.size()) {
    return broken("the shape of " + title, shape_text(mask.shape), "it has at most four axes",
                  "save it as [batch, heads, tokens_q, tokens_k], with 1 for an axis that is broadcast");
  }
  std::copy(mask.shape.rbegin(), mask.shape.rend(), shape.rbegin());
  if (mask.dtype != DType::boolean && !options.allow_non_finite) {
    if (Status s = check_finite(mask, title, Infinity::hides_keys); !s.ok()) return s;
  }
  problem.mask_tensor = std::move(found->second);
  problem.mask = view_bhsd(problem.mask_tensor.bytes.data(), problem.mask_tensor.dtype, shape);
  return {};
}

Status take_sequences(Loaded& loaded, const char* name, const char* other, HostTensor& to) {
  const auto found = loaded.tensors.find(name);
  if (found == loaded.tensors.end()) {
    return broken("tensor " + std::string(name), "missing",
                  "packed sequences need offsets of the queries and of the keys",
                  "add it to the file, or drop " + std::string(other));
  }
  const HostTensor& offsets = found->second;
  const std::string& title = loaded.titles[name];
  if (offsets.dtype != DType::s32) {
    return broken("the dtype of " + title, dtype_name(offsets.dtype), "offsets are 32- or 64-bit integers",
                  "convert it");
  }
  if (offsets.shape.size() != 1 || offsets.shape[0] < 2) {
    return broken("the shape of " + title, shape_text(offsets.shape),
                  "it holds one offset more than there are sequences", "save it as [sequences + 1]");
  }
  to = std::move(found->second);
  return {};
}

Status take_packing(Loaded& loaded, ProblemInput& problem) {
  if (!loaded.tensors.count("cu_seqlens_q") && !loaded.tensors.count("cu_seqlens_k")) return {};
  if (Status s = take_sequences(loaded, "cu_seqlens_q", "cu_seqlens_k", problem.cu_q_tensor); !s.ok())
    return s;
  if (Status s = take_sequences(loaded, "cu_seqlens_k", "cu_seqlens_q", problem.cu_k_tensor); !s.ok())
    return s;
  problem.sequences = problem.cu_q_tensor.shape[0] - 1;
  if (problem.cu_k_tensor.shape != problem.cu_q_tensor.shape) {
    return broken("the number of sequences in cu_seqlens_k", problem.cu_k_tensor.shape[0] - 1,
                  fmt::format("cu_seqlens_q has {}", problem.sequences),
                  "give every sequence its queries and its keys, of zero tokens where there are none");
  }
  problem.cu_seqlens_q = problem.cu_q_tensor.values<std::int32_t>().data();
  problem.cu_seqlens_k = problem.cu_k_tensor.values<std::int32_t>().data();
  return {};
}

}  // namespace

void add_input_options(Arguments& command, InputOptions& options) {
  command.option("--input", "FILE", options.input,
                 "Safetensors file with q, k, v (and mask, cu_seqlens_q, cu_seqlens_k)");
  command.option("--q", "FILE", options.q, "Q as a .npy file, with --k and --v instead of --input");
  command.option("--k", "FILE", options.k, "K as a .npy file");
  command.option("--v", "FILE", options.v, "V as a .npy file");
  command
      .option("--layout", "NAME", options.layout,
              "Axes of q, k, v and o: bhsd (batch, heads, tokens, dim) or bshd")
      .shows_default();
  command.flag("--allow-non-finite", options.allow_non_finite, "Take tensors that hold NaN or Inf");
}

Result<Layout> parse_layout(const std::string& name) {
  if (name == "bhsd") return Layout::bhsd;
  if (name == "bshd") return Layout::bshd;
  return broken("--layout", in_quotes(name), "it names the order of the axes", "choose one of bhsd, bshd");
}

Result<ProblemInput> load_problem(const InputOptions& options) {
  Result<Layout> layout = parse_layout(options.layout);
  if (!layout.ok()) return layout.status();
  Result<Loaded> loaded = load_files(options);
  if (!loaded.ok()) return loaded.status();
  ProblemInput problem;
  problem.layout = layout.value();
  if (Status s = take_operand(loaded.value(), "q", options, problem.q_tensor); !s.ok()) return s;
  if (Status s = take_operand(loaded.value(), "k", options, problem.k_tensor); !s.ok()) return s;
  if (Status s = take_operand(loaded.value(), "v", options, problem.v_tensor); !s.ok()) return s;
  if (Status s = take_mask(loaded.value(), options, problem); !s.ok()) return s;
  if (Status s = take_packing(loaded.value(), problem); !s.ok()) return s;
  problem.q = view_of(problem.q_tensor, problem.layout);
  problem.k = view_of(problem.k_tensor, problem.layout);
  problem.v = view_of(problem.v_tensor, problem.layout);
  return problem;
}

}  // namespace octet::tool
