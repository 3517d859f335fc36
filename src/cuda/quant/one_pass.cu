// The kernel whose warps one_pass_roles.cuh has, and its launches. Its blocks of threads, one a processor,
// wait for each other, so they are launched together (cooperatively): the device begins none of them before
// it has room for all, whatever kernels of other streams have taken, and from then on each finds what it
// waits for told by another that runs. Kernels that follow on the stream, which may take room early
// (ptx/grid.cuh), are let in by all blocks, so when all are there.
#include "cuda/quant/one_pass.cuh"

#include <algorithm>

#include "cuda/ptx/grid.cuh"
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

template <class Shape, Work kWork, Scaled kScaled>
__global__ __launch_bounds__(kOnePassThreads,
                             1) void encode_in_one_pass(const __grid_constant__ RowReading r,
                                                        const __grid_constant__ Coding k,
                                                        const __grid_constant__ Signs<Shape> signs,
                                                        const __grid_constant__ OnePassPlan plan,
                                                        int tiles_of_group) {
#if __CUDA_ARCH__ >= 900  // note: what waits for barriers is in no older code, see is_built()
  extern __shared__ __align__(128) uint4 shared_memory[];  // row_place() counts on it
  auto& shared = *reinterpret_cast<LeafRing<Shape, kCoders>*>(shared_memory);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const OnePass<Shape, kWork, kScaled> pass(r, k, plan, tiles_of_group, shared);
  pass.open();
  if (thread < Shape::kDim / kChannels) shared.flips[thread] = signs.flips[thread];
  __syncthreads();
  // note: the rows were complete before clear_words() let this kernel in, so that the first are asked for
  // now.
  if (warp != kLoader) {
    ptx::wait_for_earlier_kernels();
    ptx::let_the_next_kernel_start();
  }
  int next = 0, begin = 0;
  Round round = Round::first;
  do {
    pass.run(warp, round, begin);
    round = Round::again;
  } while (pass.kIsNorms && pass.has_unit_again(next, begin));
#endif
}

/// Whether the current device runs code of the kernel that is more than its name, and lets blocks wait for
/// each other.
bool is_built() {
  constexpr int kLeastPtx = 90;
  cudaFuncAttributes built;
  return cudaFuncGetAttributes(&built,
                               encode_in_one_pass<SegmentShape<128>, Work::multiplied, Scaled::tokens>) ==
             cudaSuccess &&
         built.ptxVersion >= kLeastPtx && runtime::launches_together();
}

Statistic statistic_of(const RowReading& rows) {
  return rows.hadamard == 0 ? Statistic::norms : Statistic::mean;
}

template <class Shape>
cudaError_t launch_one_pass_of(const RowReading& rows, const Coding& coding, const OnePassPlan& plan,
                               void* stream) {
  constexpr int kBytes = sizeof(LeafRing<Shape, kCoders>);
  const int tiles_of_group = static_cast<int>(coding.groups.tokens) / Shape::kRows;
  const auto launch = [&](auto* kernel) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    return runtime::launch_together(kernel, std::min(plan.leaves, processors()), kOnePassThreads, kBytes,
                                    stream, rows, coding, Signs<Shape>(rows), plan, tiles_of_group);
  };
  const bool is_token = coding.scale_of == ScaleOf::token;
  if (statistic_of(rows) == Statistic::norms)
    return is_token ? launch(encode_in_one_pass<Shape, Work::multiplied, Scaled::tokens>)
                    : launch(encode_in_one_pass<Shape, Work::multiplied, Scaled::sequences>);
  return is_token ? launch(encode_in_one_pass<Shape, Work::shifted_and_rotated, Scaled::tokens>)
                  : launch(encode_in_one_pass<Shape, Work::shifted_and_rotated, Scaled::key_blocks>);
}

std::int64_t leaves_of_unit(const std::array<std::int64_t, 4>& shape) {
  return (shape[2] + kLeafRows - 1) / kLeafRows;
}

bool takes_shape(const std::array<std::int64_t, 4>& shape) {
  // Of 64 heads of 1024 tokens V takes 24 us here and 21 in two readings, of 2048 31 in both (H200), for a
  // processor has one warp that ends trees. Of longer ones, and of fewer heads of 2048, this is the faster.
  constexpr std::int64_t kLeast = 16;
  return (shape[3] == 64 || shape[3] == 128) && leaves_of_unit(shape) >= kLeast &&
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

bool launch_one_pass(const RowReading& rows, const Coding& coding, void* scratch, void* stream) {
  const OnePassPlan plan(rows.x.shape, statistic_of(rows), scratch);
  const cudaError_t error = rows.dim == 64
                                ? launch_one_pass_of<SegmentShape<64>>(rows, coding, plan, stream)
                                : launch_one_pass_of<SegmentShape<128>>(rows, coding, plan, stream);
  if (error == cudaErrorCooperativeLaunchTooLarge) {
    cudaGetLastError();  // note: forgets it, for the caller has another way
    return false;
  }
  return true;
}

}  // namespace octet::cuda
