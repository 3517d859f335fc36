// The ordered list of kernels that a plan is chosen from: fastest first, the reference last.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/key_packer.h"
#include "base/kv_store.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet {

/// What a kernel does with arguments that have been validated, q, k and v in the scheme's formats.
using Run = Status (*)(const AttentionDesc& desc, const AttentionArgs& args);

using MakeStore = std::unique_ptr<KvStore> (*)(const AttentionDesc& desc, const QuantizedTensor& k,
                                               const QuantizedTensor& v);

using MakePacker = std::unique_ptr<KeyPacker> (*)(const AttentionDesc& desc, const AttentionArgs& args);

/// One backend's way to run a problem.
struct Kernel {
  std::string_view backend;
  /// Why it does not take the problem, in one sentence; empty: it does.
  std::string (*refusal)(const AttentionDesc& desc);
  Run run;  ///< args.workspace is its own
  /// Bytes of workspace that run() needs of its own, for a problem that it takes; null: none.
  std::int64_t (*workspace_bytes)(const AttentionDesc& desc) = nullptr;
  Device device = Device::cpu;  ///< where the tensors of a call must lie
  /// run() in two halves: what depends on k and v alone into the workspace, and the rest. Null where the
  /// kernel keeps nothing, so that its run() is the second half.
  Run pack = nullptr, run_packed = nullptr;
  /// pack() a head at a time, for args whose k and v are where they will be, but not there yet; both
  /// arguments outlive it. Not for scales of Granularity::tensor. Null where there is no such way.
  MakePacker make_packer = nullptr;
  /// Memory for K and V across calls (base/kv_store.h), of the problem's tokens_k at most; k and v are their
  /// layouts. Null where the kernel keeps nothing.
  MakeStore make_store = nullptr;
  /// What stands for the backend in the name of the kernel that takes the problem, where it has several;
  /// null: its name.
  std::string_view (*family)(const AttentionDesc& desc) = nullptr;
};

/// Defined in capi, the layer that knows every backend.
std::span<const Kernel> kernels();

}  // namespace octet
