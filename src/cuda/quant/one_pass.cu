// The kernel whose warps one_pass_roles.cuh has, and its launches. Its blocks of threads, one a processor,
// wait for each other, so they are launched together (cooperatively): the device begins none of them before
// it has room for all, whatever kernels of other streams have taken, and from then on each finds what it
// waits for told by another that runs. Kernels that follow on the stream, which may take room early
// (ptx/grid.cuh), are let in by all blocks, so when all are there.
#include "cuda/quant/one_pass.cuh"

#include <algorithm>

#include "cuda/ptx/grid.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/quant/one_pass_roles.cuh"
#include "cuda/quant/plan.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/launch.cuh"
#include "cuda/runtime/launch_together.cuh"

namespace octet::cuda {
namespace {

__global__ __launch_bounds__(kThreads) void clear_words(const __grid_constant__ OnePassPlan plan,
                                                        Begin begin) {
  const Begun begun(begin);
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < plan.told / 4) reinterpret_cast<uint4*>(plan.of_leaves)[i] = {kUntold, kUntold, kUntold, kUntold};
}

enum class Given { k, v, both };

/// note: a kernel each, for where one was given that had the code of both, Q, K and V in a call each took 139
/// instead of 132 us (docs/numerics/quantisation.md).
template <class Shape, Given kGiven>
__global__ __launch_bounds__(kOnePassThreads,
                             1) void encode_in_one_pass(const __grid_constant__ OnePassRows k,
                                                        const __grid_constant__ OnePassRows v,
                                                        const __grid_constant__ Signs<Shape> signs) {
#if __CUDA_ARCH__ >= 900  // note: what waits for barriers is in no older code, see is_built()
  OCTET_DYNAMIC_SHARED(shared_memory, 128);  // row_place() counts on it
  auto& shared = *reinterpret_cast<LeafRing<Shape, kCoders>*>(shared_memory);
  constexpr bool kHasK = kGiven != Given::v, kHasV = kGiven != Given::k;
  const int thread = static_cast<int>(threadIdx.x);
  const OnePass<Shape, Work::shifted_and_rotated> of_k(k, shared);
  const OnePass<Shape, Work::multiplied> of_v(v, shared);
  if (thread == 0) {
    shared.open();
    if constexpr (kHasK) of_k.open();
    if constexpr (kHasV) of_v.open();
  }
  if (thread < Shape::kDim / kChannels) shared.flips[thread] = signs.flips[thread];
  __syncthreads();
  // note: the rows were complete before clear_words() let this kernel in, so that the first are asked for
  // now.
  if (thread / kWarp != kLoader) {
    ptx::wait_for_earlier_kernels();
    ptx::let_the_next_kernel_start();
  }
  if constexpr (kHasK)
    if (of_k.is_there()) of_k.run();
  if constexpr (kHasV) {
    if (!of_v.is_there()) return;
    do of_v.run();
    while (of_v.has_unit_again());
  }
#endif
}

/// Whether the current device runs code of the kernel that is more than its name, and lets blocks wait for
/// each other.
bool is_built() {
  constexpr int kLeastPtx = 90;
  cudaFuncAttributes built;
  return cudaFuncGetAttributes(&built, encode_in_one_pass<SegmentShape<128>, Given::both>) == cudaSuccess &&
         built.ptxVersion >= kLeastPtx && runtime::launches_together();
}

Statistic statistic_of(const RowReading& rows) {
  return rows.hadamard == 0 ? Statistic::norms : Statistic::mean;
}

template <class Shape>
cudaError_t launch_one_pass_of(std::span<const OnePassOperand> operands, void* stream) {
  OnePassRows k, v;
  Signs<Shape> signs;
  for (const OnePassOperand& x : operands) {
    const Statistic statistic = statistic_of(x.rows);
    if (statistic == Statistic::mean) signs = Signs<Shape>(x.rows);
    OnePassRows& of = statistic == Statistic::mean ? k : v;
    of.rows = x.rows, of.coding = x.coding, of.plan = {x.rows.x.shape, statistic, x.scratch};
    of.tiles_of_group = static_cast<int>(x.coding.groups.tokens) / Shape::kRows;
  }
  v.before = k.plan.leaves;
  constexpr int kBytes = sizeof(LeafRing<Shape, kCoders>);
  auto* kernel = encode_in_one_pass<Shape, Given::both>;
  if (v.plan.leaves == 0) kernel = encode_in_one_pass<Shape, Given::k>;
  if (k.plan.leaves == 0) kernel = encode_in_one_pass<Shape, Given::v>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  return runtime::launch_together(kernel, std::min(k.plan.leaves + v.plan.leaves, processors()),
                                  kOnePassThreads, kBytes, stream, k, v, signs);
}

std::int64_t leaves_of_unit(const std::array<std::int64_t, 4>& shape) {
  return (shape[2] + kLeafRows - 1) / kLeafRows;
}

bool takes_shape(const std::array<std::int64_t, 4>& shape) {
  return (shape[3] == 64 || shape[3] == 128) && leaves_of_unit(shape) >= kLeastLeavesOfUnit &&
         leaves_of_unit(shape) <= kMostLeavesOfUnit;
}

/// Whether all leaves of a unit may be in rings at once, for none of them leaves before all are there.
bool has_room(const std::array<std::int64_t, 4>& shape) {
  constexpr std::int64_t kSlots = LeafRing<SegmentShape<128>, kCoders>::kSlots;
  return leaves_of_unit(shape) <= processors() * kSlots;
}

}  // namespace

std::int64_t one_pass_bytes(const std::array<std::int64_t, 4>& shape, Statistic statistic) {
  return takes_shape(shape) ? OnePassPlan(shape, statistic, nullptr).bytes() : 0;
}

bool takes_one_pass(const RowReading& rows, const Coding& coding) {
  const ScaleMaking& making = coding.making;
  const bool is_16_bit = rows.x.dtype == DType::bf16 || rows.x.dtype == DType::f16;
  constexpr std::int64_t kBytes = 16;
  if (!is_16_bit || !rows.in_vectors || rows.channels != rows.dim || coding.codes.dtype != DType::s8 ||
      !is_multiple(coding.codes, kBytes, kBytes) || making.is_shared() || making.largest_code > 127 ||
      making.head_floor.octaves > 0)
    return false;
  const bool is_group = coding.scale_of == ScaleOf::group, has_floor = making.block_floor.octaves > 0;
  const bool is_rotated = rows.hadamard == rows.dim && rows.shift.data && !rows.exponent.data,
             is_multiplied = rows.hadamard == 0 && (rows.exponent.data || is_group) && !rows.shift.data;
  const std::int64_t of_group = coding.groups.is_one ? 0 : coding.groups.tokens;
  // Of K key blocks have scales, or tokens; of V sequences (floors are of key blocks there), or tokens.
  bool is_scale = coding.scale_of == ScaleOf::token && (!has_floor || is_multiplied);
  if (is_group) is_scale = !coding.groups.is_one && !has_floor && (of_group > 0) == is_rotated;
  // A leaf is whole key blocks, and they are whole tiles.
  constexpr std::int64_t kTileRows = 32;
  const bool is_whole = of_group == 0 || (kLeafRows % of_group == 0 && of_group % kTileRows == 0);
  return (is_rotated || is_multiplied) && is_scale && is_whole && takes_shape(rows.x.shape) &&
         has_room(rows.x.shape) && !rows.order.sequences.cu_seqlens && runtime::is_hopper() && is_built();
}

void clear_for_one_pass(const RowReading& rows, void* scratch, Begin begin, void* stream) {
  const OnePassPlan plan(rows.x.shape, statistic_of(rows), scratch);
  const std::int64_t vectors = plan.told / 4;
  runtime::launch(clear_words, static_cast<std::uint32_t>((vectors + kThreads - 1) / kThreads), kThreads, 0,
                  stream, plan, begin);
}

bool share_one_pass(const OnePassOperand& a, const OnePassOperand& b) {
  return a.rows.dim == b.rows.dim && statistic_of(a.rows) != statistic_of(b.rows);
}

bool launch_one_pass(std::span<const OnePassOperand> operands, void* stream) {
  const cudaError_t error = operands[0].rows.dim == 64
                                ? launch_one_pass_of<SegmentShape<64>>(operands, stream)
                                : launch_one_pass_of<SegmentShape<128>>(operands, stream);
  if (error == cudaErrorCooperativeLaunchTooLarge) {
    cudaGetLastError();  // note: forgets it, for the caller has another way
    return false;
  }
  return true;
}

}  // namespace octet::cuda
