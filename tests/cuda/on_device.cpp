#include "tests/cuda/on_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
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

}  // namespace

/// A call as the device has it, without what it writes.
class CallOnDevice {
 public:
  CallOnDevice(const AttentionDesc& given, const AttentionArgs& on_host, Operands operands) : desc(given) {
    status = put(on_host, operands);
  }

  /// Attention into o and lse of the host; attend(args) queues it.
  template <class Attend>
  Status run(const TensorView& o, const TensorView& lse, std::int64_t workspace_bytes, const Attend& attend) {
    DeviceMemory outputs;
    AttentionArgs there = args_;
    there.o = outputs.put(o), there.lse = outputs.put(lse);
    there.workspace = outputs.take(workspace_bytes), there.workspace_bytes = workspace_bytes;
    OCTET_TRY(outputs.status);
    OCTET_TRY(attend(there));
    outputs.get(there.o, o), outputs.get(there.lse, lse);
    outputs.look_at_margins();
    return outputs.status;
  }
  Status look_at_margins() {
    memory_.look_at_margins();
    return memory_.status;
  }

  AttentionDesc desc;
  Status status;

 private:
  Status put(AttentionArgs args, Operands operands) {
    Coded q, k, v;
    Status made;
    if (operands == Operands::codes) {
      capi::OperandRecipes recipes = capi::operand_recipes(desc);
      if (desc.scheme == Scheme::qattn)
        recipes.q.shared_amax = recipes.k.shared_amax = recipes.v.shared_amax =
            largest_of({&args.q, &args.k, &args.v});
      const std::int64_t count = desc.sequences > 0 ? desc.sequences : desc.batch;
      const Sequences queries{count, desc.tokens_q, args.cu_seqlens_q},
          keys{count, desc.tokens_k, args.cu_seqlens_k};
      q.make(args.q.codes, queries, recipes.q, made);
      k.make(args.k.codes, keys, recipes.k, made);
      v.make(args.v.codes, keys, recipes.v, made);
      OCTET_TRY(made);
      args.q = q.tensor, args.k = k.tensor, args.v = v.tensor;
      desc.input = recipes.q.format;
    }
    AsBf16 of_bf16[3];
    if (operands == Operands::bf16) {
      of_bf16[0].make(args.q.codes), of_bf16[1].make(args.k.codes), of_bf16[2].make(args.v.codes);
      desc.input = DType::bf16;
    }
    desc.device = Device::cuda;
    args_.q = memory_.put(args.q), args_.k = memory_.put(args.k), args_.v = memory_.put(args.v);
    args_.bias = memory_.put(args.bias);
    const auto offsets = [&](const std::int32_t* cu) {
      return static_cast<const std::int32_t*>(
          memory_.put(cu, (desc.sequences + 1) * std::int64_t{sizeof *cu}));
    };
    if (args.cu_seqlens_q)
      args_.cu_seqlens_q = offsets(args.cu_seqlens_q), args_.cu_seqlens_k = offsets(args.cu_seqlens_k);
    return memory_.status;
  }

  AttentionArgs args_;
  DeviceMemory memory_;
};

std::string no_device() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(error);
  return devices == 0 ? "no CUDA device" : "";
}

Output run_on_device(const Call& call, Scheme scheme, Operands operands) {
  return with_problem(call, scheme, [&](const AttentionDesc& desc, const AttentionArgs& args) -> Status {
    CallOnDevice on_device(desc, args, operands);
    OCTET_TRY(on_device.status);
    Result<AttentionPlan> plan = AttentionPlan::create(on_device.desc, "mma");
    if (!plan.ok()) return plan.status();
    OCTET_TRY(on_device.run(args.o, args.lse, plan.value().workspace_bytes(),
                            [&](const AttentionArgs& there) { return plan.value().run(there); }));
    return on_device.look_at_margins();
  });
}

struct CutsOnDevice::Held {
  CallOnDevice call;
  std::vector<cuda::Cut> cuts;
};

CutsOnDevice::CutsOnDevice(const Call& call, Scheme scheme) : call_(call), scheme_(scheme) {
  const auto hold = [&](const AttentionDesc& desc, const AttentionArgs& args) -> Status {
    held_.reset(new Held{{desc, args, Operands::codes}, {}});
    OCTET_TRY(held_->call.status);
    OCTET_TRY(AttentionPlan::create(held_->call.desc, "mma").status());
    held_->cuts = seldom_cuts_of(held_->call.desc);
    return {};
  };
  status_ = with_problem(call, scheme, hold).status;
}
CutsOnDevice::~CutsOnDevice() = default;

std::size_t CutsOnDevice::count() const { return held_ ? held_->cuts.size() : 0; }

bool CutsOnDevice::has_ranges(std::size_t cut) const { return held_->cuts[cut].ranges > 0; }

Output CutsOnDevice::run(std::size_t cut) {
  const AttentionDesc& desc = held_->call.desc;
  const cuda::Cut& by = held_->cuts[cut];
  const auto attend = [&](const AttentionArgs& there) -> Status {
    OCTET_TRY(cuda::pack(desc, there, by));
    return cuda::attend_packed(desc, there, by);
  };
  return with_problem(call_, scheme_, [&](const AttentionDesc&, const AttentionArgs& args) {
    return held_->call.run(args.o, args.lse, cuda::workspace_bytes(desc, by), attend);
  });
}

Status CutsOnDevice::look_at_margins() { return held_->call.look_at_margins(); }

}  // namespace octet::testing
