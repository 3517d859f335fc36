#include "cuda/quant/windows.cuh"
#include "cuda/runtime/launch.cuh"
#include "cuda/window/attend.cuh"
#include "cuda/window/launch.cuh"
#include "numerics/int8.h"
#include "numerics/int8_full.h"
#include "numerics/uniform_u8.h"

namespace octet::cuda::window {
namespace {

static_assert(kTokens == kMostWindowTokens && kChannels == WindowShape::kDim);

/// launched(kernel) of the scheme's, and true; false where there is none that knows such scales.
template <class Launched>
bool with_kernel(const Asked& asked, WindowScales scales, const Launched& launched) {
  const auto is = [&](Scheme scheme, Form form, WindowScales most) {
    return asked.scheme == scheme && asked.form == form && scales <= most;
  };
  if (is(Scheme::int8, Form::general, WindowScales::of_tokens))
    launched(attend<Int8Scheme, WindowScales::of_tokens>);
  else if (is(Scheme::int8, Form::uniform, WindowScales::of_windows_too))
    launched(attend<UniformU8, WindowScales::of_windows_too>);
  else if (is(Scheme::int8_full, Form::general, WindowScales::of_values_too))
    launched(attend<Int8FullScheme, WindowScales::of_values_too>);
  else if (is(Scheme::int8_half, Form::general, WindowScales::of_tokens))
    launched(attend<Int8HalfScheme, WindowScales::of_tokens>);
  else
    return false;
  return true;
}

bool is_group(const ShortOperand& x) { return x.coding.scale_of == ScaleOf::group; }
/// Whether nothing is asked of the rows together: what becomes of each follows from itself.
bool are_alone(const ShortOperand& x) {
  return !is_group(x) && !x.rows.shift.data && !x.rows.exponent.data &&
         x.coding.making.block_floor.octaves == 0;
}
/// Rows of V that are read as windows' are, and get no codes.
bool are_numbers(const ShortOperand& x) {
  const RowReading& r = x.rows;
  return x.coding.scale_of == ScaleOf::nothing && are_alone(x) && r.x.dtype != DType::f32 && r.in_vectors &&
         r.dim == kChannels && r.hadamard == 0 && !r.order.sequences.cu_seqlens;
}

}  // namespace

bool launch(const Asked& asked, const Call& call, const std::array<ShortOperand, 3>& operands, void* stream,
            int& error) {
  const ShortOperand &k = operands[0], &v = operands[1], &q = operands[2];
  const bool are_windows = asked.scheme == Scheme::int8_half ? are_numbers(v) : is_of_windows(v);
  // Q's codes are made while what K and V have in common is found.
  if (!is_of_windows(k) || !is_of_windows(q) || !are_windows || !are_alone(q)) return false;
  if (k.rows.hadamard > 0 && q.rows.hadamard > 0 && k.rows.sign[0] != q.rows.sign[0]) return false;
  PlainWindows windows{{k, v, q}, {}};
  for (const ShortOperand* x : {&k, &q})
    if (x->rows.hadamard > 0) windows.factors = WindowFactors(x->rows);
  const WindowScales scales = is_group(k)   ? WindowScales::of_windows_too
                              : is_group(v) ? WindowScales::of_values_too
                                            : WindowScales::of_tokens;
  const dim3 blocks(static_cast<unsigned>(asked.batch), static_cast<unsigned>(asked.heads));
  return with_kernel(asked, scales, [&](auto* kernel) {
    error = runtime::launch(kernel, blocks, kThreads, 0, stream, call, windows);
  });
}

}  // namespace octet::cuda::window
