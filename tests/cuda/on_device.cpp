#include "tests/cuda/on_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>
#include <vector>

#include "base/try.h"
#include "capi/operands.h"
#include "core/plan.h"
#include "cuda/cuda.h"
#include "cuda/mma/tile.h"
#include "numerics/formats.h"
#include "numerics/number_at.h"
#include "octet/dtype.hpp"
#include "quant/quantize.h"
#include "tests/cuda/device_memory.h"

namespace octet::testing {
namespace {

/// Host memory of a quantised operand.
struct Coded {
  QuantizedTensor tensor;
  std::vector<std::byte> codes, scales, mean, exponent;

  void make(const TensorView& x, const Sequences& sequences, const quant::OperandRecipe& recipe,
            Status& status) {
    tensor = quant::layout(x.shape, recipe, sequences.cu_seqlens ? sequences.count : 0);
    hold(tensor.codes, codes), hold(tensor.scales, scales);
    hold(tensor.mean, mean), hold(tensor.channel_exponent, exponent);
    if (status.ok()) status = quant::quantize(x, sequences, recipe, tensor, {});
  }

 private:
  static void hold(TensorView& view, std::vector<std::byte>& memory) {
    if (view.shape == std::array<std::int64_t, 4>{}) return;
    memory.resize(static_cast<std::size_t>(std::max<std::int64_t>(capi::span_bytes(view), 1)));
    view.data = memory.data();
  }
};

/// The numbers of an f32 tensor as bf16, in memory of the same layout.
class AsBf16 {
 public:
  /// x: becomes this one's view.
  void make(TensorView& x) {
    memory_.resize(static_cast<std::size_t>(std::max<std::int64_t>(capi::span_bytes(x) / 4, 1)));
    const auto* const from = static_cast<const float*>(x.data);
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = bf16_from_f32(from[i]);
    x.data = memory_.data(), x.dtype = DType::bf16;
  }

 private:
  std::vector<std::uint16_t> memory_;
};

/// Of plain tensors.
float largest_of(std::initializer_list<const QuantizedTensor*> tensors) {
  float largest = 0;
  for (const QuantizedTensor* x : tensors) {
    const TensorView& t = x->codes;
    for (std::int64_t b = 0; b < t.shape[0]; ++b)
      for (std::int64_t h = 0; h < t.shape[1]; ++h)
        for (std::int64_t i = 0; i < t.shape[2]; ++i)
          for (std::int64_t c = 0; c < t.shape[3]; ++c) {
            const std::int64_t at = b * t.stride[0] + h * t.stride[1] + i * t.stride[2] + c * t.stride[3];
            largest = std::max(largest, std::abs(number_at(t.data, t.dtype, at)));
          }
  }
  return largest;
}

/// Attention of operands in device memory: by the plan, or by a cut.
Status attend(const AttentionPlan& plan, const AttentionDesc&, const AttentionArgs& args, std::monostate) {
  return plan.run(args);
}
Status attend(const AttentionPlan&, const AttentionDesc& desc, const AttentionArgs& args,
              const cuda::Cut& cut) {
  OCTET_TRY(cuda::pack(desc, args, cut));
  return cuda::attend_packed(desc, args, cut);
}

std::int64_t workspace_bytes(const AttentionPlan& plan, const AttentionDesc&, std::monostate) {
  return plan.workspace_bytes();
}
std::int64_t workspace_bytes(const AttentionPlan&, const AttentionDesc& desc, const cuda::Cut& cut) {
  return cuda::workspace_bytes(desc, cut);
}

/// Cuts that calls of tests are too short, or too many, to take by themselves.
std::vector<cuda::Cut> seldom_cuts_of(const AttentionDesc& desc) {
  std::vector<cuda::Cut> cuts = cuda::cuts_of(desc);
  std::erase_if(cuts, [&](const cuda::Cut& cut) {
    const cuda::mma::Tile& tile = cuda::mma::kTileTable[cut.tile];
    if (cut.ranges > 0) return cut.family == cuda::Family::mma && cut.warps > 1 && tile.key_parts == 1;
    if (tile.kept_blocks > 0) {
      const bool has_all_rows = cut.row_tiles * cut.warps * cuda::mma::kRowsAWarp >= desc.tokens_q;
      return cut.row_tiles == 1 ||
             !(has_all_rows || (cut.row_tiles == 2 && cut.warps == cuda::mma::kMostWarps));
    }
    const bool is_plain = cut.family == cuda::Family::mma && tile.key_parts == 1 && tile.lone_blocks == 0;
    return is_plain && (cut.e4m3 == cuda::E4m3::as_it_is || cut.warps < cuda::mma::kMostWarps);
  });
  return cuts;
}

/// choose(desc): a cut, or nothing for the plan's own.
template <class Choose>
Status run_with(AttentionDesc desc, AttentionArgs args, Operands operands, const Choose& choose) {
  Coded q, k, v;
  Status status;
  if (operands == Operands::codes) {
    capi::OperandRecipes recipes = capi::operand_recipes(desc);
    if (desc.scheme == Scheme::qattn)
      recipes.q.shared_amax = recipes.k.shared_amax = recipes.v.shared_amax =
          largest_of({&args.q, &args.k, &args.v});
    const std::int64_t count = desc.sequences > 0 ? desc.sequences : desc.batch;
    const Sequences queries{count, desc.tokens_q, args.cu_seqlens_q},
        keys{count, desc.tokens_k, args.cu_seqlens_k};
    q.make(args.q.codes, queries, recipes.q, status);
    k.make(args.k.codes, keys, recipes.k, status);
    v.make(args.v.codes, keys, recipes.v, status);
    OCTET_TRY(status);
    args.q = q.tensor, args.k = k.tensor, args.v = v.tensor;
    desc.input = recipes.q.format;
  }
  AsBf16 of_bf16[3];
  if (operands == Operands::bf16) {
    of_bf16[0].make(args.q.codes), of_bf16[1].make(args.k.codes), of_bf16[2].make(args.v.codes);
    desc.input = DType::bf16;
  }
  desc.device = Device::cuda;
  Result<AttentionPlan> plan = AttentionPlan::create(desc, "mma");
  if (!plan.ok()) return plan.status();
  DeviceMemory device;
  auto chosen = choose(desc);
  OCTET_TRY(chosen.status());
  AttentionArgs there = args;
  there.q = device.put(args.q), there.k = device.put(args.k), there.v = device.put(args.v);
  there.o = device.put(args.o), there.bias = device.put(args.bias);
  there.lse = device.put(args.lse);
  const auto offsets = [&](const std::int32_t* cu) {
    return static_cast<const std::int32_t*>(device.put(cu, (desc.sequences + 1) * std::int64_t{sizeof *cu}));
  };
  if (args.cu_seqlens_q)
    there.cu_seqlens_q = offsets(args.cu_seqlens_q), there.cu_seqlens_k = offsets(args.cu_seqlens_k);
  there.workspace_bytes = workspace_bytes(plan.value(), desc, chosen.value());
  there.workspace = device.take(there.workspace_bytes);
  OCTET_TRY(device.status);
  OCTET_TRY(attend(plan.value(), desc, there, chosen.value()));
  device.get(there.o, args.o), device.get(there.lse, args.lse);
  device.look_at_margins();
  return device.status;
}

}  // namespace

std::string no_device() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(error);
  return devices == 0 ? "no CUDA device" : "";
}

Output run_on_device(const Call& call, Scheme scheme, Operands operands) {
  return with_problem(call, scheme, [&](const AttentionDesc& desc, const AttentionArgs& args) {
    return run_with(desc, args, operands,
                    [](const AttentionDesc&) { return Result<std::monostate>(std::monostate{}); });
  });
}

OutputOfCut run_by_cut(const Call& call, Scheme scheme, std::size_t cut) {
  OutputOfCut output;
  const auto choose = [&](const AttentionDesc& desc) -> Result<cuda::Cut> {
    const std::vector<cuda::Cut> cuts = seldom_cuts_of(desc);
    if (cut >= cuts.size()) return Status{Code::unsupported, "no such cut"};
    output.has_ranges = cuts[cut].ranges > 0;
    return cuts[cut];
  };
  static_cast<Output&>(output) =
      with_problem(call, scheme, [&](const AttentionDesc& desc, const AttentionArgs& args) {
        return run_with(desc, args, Operands::codes, choose);
      });
  return output;
}

}  // namespace octet::testing
