// All steps of windows in one launch: sequences of up to 64 tokens of 32 channels, as Swin has them, a warp
// each, which waits for nobody.
#include "cuda/quant/windows.cuh"

#include <algorithm>

#include "base/divided_up.h"
#include "cuda/quant/launch.cuh"
#include "cuda/quant/window.cuh"
#include "cuda/quant/window_out.cuh"
#include "cuda/runtime/launch.cuh"

namespace octet::cuda {
namespace {

struct WindowOperand {
  ShortOperand x;
  Divider heads;
  std::uint32_t first_block = 0;
};
struct WindowOperands {
  WindowOperand of[kMostTogether];
  WindowFactors factors;  ///< of all that are rotated
  std::uint32_t count = 0;
};

/// note: a block is a warp, so that what is the same in all of it is known to be.
template <WindowScales kScales>
__global__ __launch_bounds__(kWarp,
                             24) void quantize_windows(const __grid_constant__ WindowOperands operands) {
  __shared__ WindowSpace<kScales> space;
  std::uint32_t number = 0;
  while (number + 1 < operands.count && blockIdx.x >= operands.of[number + 1].first_block) ++number;
  const WindowOperand& of = operands.of[number];
  const std::uint32_t unit = blockIdx.x - of.first_block;
  const auto b = static_cast<std::int32_t>(of.heads.quotient(unit)),
             h = static_cast<std::int32_t>(unit) - b * static_cast<std::int32_t>(of.heads.divisor);
  Window<kScales, WindowToMemory>(of.x, operands.factors, b, h, space, WindowToMemory(of.x, b, h)).run();
}

bool has_scale(const ShortOperand& x) { return x.coding.scale_of == ScaleOf::group; }

}  // namespace

bool is_of_windows(const ShortOperand& x) {
  const RowReading& r = x.rows;
  const Coding& k = x.coding;
  if (!is_of_dense_s8(x) || r.dim != WindowShape::kDim || r.x.shape[2] > kMostWindowTokens) return false;
  if (r.hadamard != 0 && r.hadamard != r.dim) return false;
  const bool is_mixed = r.hadamard > 0 || r.shift.data, has_floor = k.making.block_floor.octaves > 0;
  if (is_mixed && (r.exponent.data || has_floor || (has_scale(x) && k.channel_groups > 1))) return false;
  if (has_floor && has_scale(x)) return false;
  // A scale, and a floor, is of the whole window.
  return (!has_scale(x) && !has_floor) || k.groups.tokens == 0 || k.groups.tokens >= r.x.shape[2];
}

/// Measured on an H200 (docs/cuda-measurements.md#windows).
bool should_launch_windows(std::span<const ShortOperand> operands) {
  const RowReading* rotated = nullptr;
  std::uint32_t windows = 0;
  int statistics = 0;
  for (const ShortOperand& x : operands) {
    if (x.rows.hadamard > 0) {
      if (rotated && rotated->sign[0] != x.rows.sign[0]) return false;
      rotated = &x.rows;
    }
    windows += units_of(x.rows);
    statistics += x.rows.shift.data || x.rows.exponent.data || has_scale(x) ? 1 : 0;
  }
  // Where they are few, several warps a window are better off by what is done to rows alone, and worse by
  // what all of them have in common.
  constexpr std::uint32_t kFewOfProcessor = 5;
  return statistics > 1 || windows >= kFewOfProcessor * processors();
}

void launch_windows(std::span<const ShortOperand> operands, void* stream) {
  WindowOperands all{};
  std::uint32_t blocks = 0;
  for (const ShortOperand& x : operands) {
    if (x.rows.hadamard > 0) all.factors = WindowFactors(x.rows);
    all.of[all.count++] = {x, Divider(x.rows.order.heads), blocks};
    blocks += units_of(x.rows);
  }
  const auto launch = [&](auto* kernel) { runtime::launch(kernel, blocks, kWarp, 0, stream, all); };
  if (std::ranges::any_of(operands, has_scale))
    launch(quantize_windows<WindowScales::of_windows_too>);
  else
    launch(quantize_windows<WindowScales::of_tokens>);
}

}  // namespace octet::cuda
