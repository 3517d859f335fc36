// Q, K, V and what comes with them (mask, packed sequences), from files.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "common/command.h"
#include "io/host_tensor.h"
#include "octet/types.hpp"

namespace octet::tool {

enum class Layout { bhsd, bshd };  ///< [batch, heads, tokens, dim] or [batch, tokens, heads, dim]

/// What the user says about the input.
struct InputOptions {
  std::string input;    ///< a safetensors file with q, k, v and, optionally, mask, cu_seqlens_q, cu_seqlens_k
  std::string q, k, v;  ///< or three .npy files
  std::string layout = "bhsd";
  bool allow_non_finite = false;
};

/// --input, --q, --k, --v, --layout, --allow-non-finite.
void add_input_options(Arguments& command, InputOptions& options);

/// A problem's tensors. The views point into the tensors, which stay where they are when this is moved.
struct ProblemInput {
  HostTensor q_tensor, k_tensor, v_tensor, mask_tensor, cu_q_tensor, cu_k_tensor;
  TensorView q, k, v;
  TensorView mask;                             ///< data null: none. boolean, or additive f32, f16, bf16
  const std::int32_t* cu_seqlens_q = nullptr;  ///< null: dense
  const std::int32_t* cu_seqlens_k = nullptr;
  std::int64_t sequences = 0;  ///< 0: dense
  Layout layout = Layout::bhsd;
};

/// "bhsd" or "bshd".
Result<Layout> parse_layout(const std::string& name);

/// Reads the files and checks what a plan cannot: that q, k and v are there, have four axes, none of them
/// empty, and are f32, f16 or bf16; that a mask has at most four axes (aligned at the last, as NumPy
/// broadcasts) and is boolean or additive; that cu_seqlens_q and cu_seqlens_k come together and hold s32; and
/// that every value is finite unless allowed (-inf in an additive mask hides a key and is always allowed).
/// Errors name file, tensor, value, rule and remedy.
Result<ProblemInput> load_problem(const InputOptions& options);

}  // namespace octet::tool
