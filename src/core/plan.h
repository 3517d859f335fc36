// Plan: a validated problem, the kernel chosen for it, why each other one was refused, and where everything
// lies in the workspace.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/registry.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet {

/// A kernel that lost, and why.
struct Refusal {
  std::string kernel;
  std::string reason;
};

/// A quantised (or converted) operand inside the workspace: shapes and strides as usual, data pointers hold
/// byte offsets.
struct OperandPlan {
  QuantizedTensor layout;
  bool prequantized = false;

  /// Whether the operand comes as plain numbers, and the kernel takes what is made of them.
  bool is_made() const { return !prequantized && layout.codes.shape != decltype(layout.codes.shape){}; }
};

/// Everything decided before data arrives. Immutable once made; run() may be called from any number of
/// threads with workspaces of their own.
struct Plan {
  AttentionDesc desc;
  std::string kernel;   ///< <family>/<scheme>/d<dim>/<mask>
  std::string backend;  ///< "reference"
  Device device = Device::cpu;
  std::int64_t kernel_bytes = 0;   ///< of the workspace: the kernel's own share
  std::int64_t kernel_offset = 0;  ///< where that begins
  Run run = nullptr;
  Run pack = nullptr, run_packed = nullptr;  ///< the halves of run(); pack may be null: nothing to do
  MakePacker make_packer = nullptr;          ///< may be null
  MakeStore make_store = nullptr;
  /// Where K and V come from.
  enum class Keys { arguments, cache } keys = Keys::arguments;
  std::vector<Refusal> refusals;
  OperandPlan q, k, v;
  std::int64_t workspace_bytes = 0;
};

/// Checks desc by itself and against the scheme table: every rule has a sentence with argument, value, rule
/// and remedy. invalid_argument: a rule of every scheme; unsupported: what this scheme does not offer.
Status validate_desc(const AttentionDesc& desc);

/// Validates desc and chooses the first of the candidates that takes the problem. backend: "" for any, or a
/// name to force one. The operands are not laid out yet (capi does: only it knows the quantiser).
Result<Plan> make_plan(const AttentionDesc& desc, const std::string& backend,
                       std::span<const Kernel> candidates);

/// Whether q, k and v of this problem come quantised beforehand.
bool takes_codes(const AttentionDesc& desc);

/// Which tensors of a call validate_args() looks at.
enum class Outputs {
  attention,  ///< o, lse, o_scale and the workspace
  none,       ///< the workspace only: the caller checks its own output
};

/// Checks the tensors of a call against the plan: shapes, dtypes, devices, strides, cu_seqlens, workspace.
/// O(sequences); reads no tensor.
Status validate_args(const Plan& plan, const AttentionArgs& args, Outputs outputs);

/// One tensor on its own: that data is there and aligned, on `device`, of the dtype, and that no offset
/// overflows. An empty tensor needs no data.
Status validate_tensor(const std::string& argument, const TensorView& x, DType dtype, Device device);

/// Beyond validate_tensor: that no two elements of an output share memory.
Status validate_output(const std::string& argument, const TensorView& x, DType dtype, Device device,
                       const std::array<std::int64_t, 4>& shape);

/// sequences + 1 offsets: 0 first, never falling, `tokens` last.
Status validate_cu_seqlens(const std::string& argument, const std::int32_t* cu_seqlens,
                           std::int64_t sequences, std::int64_t tokens);

/// Whether every offset of the tensor, in bytes, fits 62 bits.
bool offsets_fit(const TensorView& x);

/// Bytes of one element; 1 for s4, whose byte holds two.
std::int64_t bytes_of(DType dtype);

}  // namespace octet
