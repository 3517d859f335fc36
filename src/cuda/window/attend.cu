#include "cuda/quant/windows.cuh"
#include "cuda/runtime/launch.cuh"
#include "cuda/window/attend.cuh"
#include "cuda/window/launch.cuh"
#include "numerics/int8.h"
#include "numerics/int8_full.h"
#include "numerics/uniform_u8.h"

namespace octet::cuda::window {
namespace {

/// launched(kernel) of the scheme's, and true; false where there is none. Of operands with a scale a window
/// those that have such by default.
template <class Launched>
bool with_kernel(const Asked& asked, WindowScales scales, const Launched& launched) {
  const bool by_token = scales == WindowScales::of_tokens;
  if (asked.scheme == Scheme::int8 && asked.form == Form::general && by_token)
    launched(attend<Int8Scheme, WindowScales::of_tokens>);
  else if (asked.scheme == Scheme::int8 && asked.form == Form::uniform)
    launched(attend<UniformU8, WindowScales::of_windows_too>);
  else if (asked.scheme == Scheme::int8_full && asked.form == Form::general)
    launched(attend<Int8FullScheme, WindowScales::of_windows_too>);
  else
    return false;
  return true;
}

}  // namespace

bool launch(const Asked& asked, const Call& call, std::span<const ShortOperand> operands, void* stream,
            int& error) {
  if (operands.size() != kOperands) return false;
  PlainWindows windows{};
  const RowReading* rotated = nullptr;
  WindowScales scales = WindowScales::of_tokens;
  for (std::size_t i = 0; i < kOperands; ++i) {
    const ShortOperand& x = operands[i];
    // Q's codes are made while what K and V have in common is found.
    const bool is_alone = x.coding.scale_of == ScaleOf::token && !x.rows.shift.data &&
                          !x.rows.exponent.data && x.coding.making.block_floor.octaves == 0;
    if (!is_of_windows(x) || (Of{static_cast<int>(i)} == Of::q && !is_alone)) return false;
    if (x.coding.scale_of == ScaleOf::group) scales = WindowScales::of_windows_too;
    if (x.rows.hadamard > 0) {
      if (rotated && rotated->sign[0] != x.rows.sign[0]) return false;
      rotated = &x.rows;
    }
    windows.of[i] = x;
  }
  if (rotated) windows.factors = WindowFactors(*rotated);
  const dim3 blocks(static_cast<unsigned>(asked.batch), static_cast<unsigned>(asked.heads));
  return with_kernel(asked, scales, [&](auto* kernel) {
    error = runtime::launch(kernel, blocks, kThreads, 0, stream, call, windows);
  });
}

}  // namespace octet::cuda::window
