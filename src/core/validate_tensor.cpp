// Checks of one tensor on its own.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/try.h"
#include "core/names.h"
#include "core/plan.h"
#include "core/sentence.h"
#include "octet/dtype.hpp"

namespace octet {
namespace {

using Axes = std::array<std::int64_t, 4>;

bool is_empty(const Axes& shape) {
  return std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n == 0; });
}

/// No two elements coincide where each axis steps over everything that the axes with smaller steps reach.
bool axes_nest(const TensorView& x) {
  std::array<int, 4> order{0, 1, 2, 3};
  std::sort(order.begin(), order.end(), [&](int a, int b) { return x.stride[a] < x.stride[b]; });
  std::int64_t reach = 0;
  for (int a : order) {
    if (x.shape[a] <= 1) continue;
    if (x.stride[a] <= reach) return false;
    reach += (x.shape[a] - 1) * x.stride[a];
  }
  return true;
}

}  // namespace

std::int64_t bytes_of(DType dtype) { return std::max(dtype_bits(dtype) / 8, 1); }

bool offsets_fit(const TensorView& x) {
  std::int64_t reach = 0;
  for (int a = 0; a < 4; ++a) {
    std::int64_t along = 0;
    if (x.stride[a] == INT64_MIN) return false;
    if (__builtin_mul_overflow(std::max<std::int64_t>(x.shape[a] - 1, 0), std::abs(x.stride[a]), &along))
      return false;
    if (__builtin_add_overflow(reach, along, &reach)) return false;
  }
  return reach < (std::int64_t{1} << 62) / bytes_of(x.dtype);
}

Status validate_tensor(const std::string& argument, const TensorView& x, DType dtype, Device device) {
  if (x.dtype != dtype) {
    const int value = static_cast<int>(x.dtype);
    return broken(argument + ".dtype", name_of(EnumKind::dtype, value), "it must be " + name_of(dtype),
                  "convert the tensor, or plan for the dtype that it has");
  }
  if (x.device != device) {
    return broken(argument + ".device", name_of(x.device),
                  "the planned kernel reads memory of " + name_of(device),
                  "copy the tensor there, or plan with a backend of its device");
  }
  for (std::int64_t n : x.shape) {
    if (n < 0)
      return broken(argument + ".shape", shape_text(x.shape), "no axis may be negative",
                    "pass the tensor's own");
  }
  if (is_empty(x.shape)) return {};
  if (!x.data)
    return broken(argument + ".data", "NULL", "the tensor has elements", "point it at the tensor's memory");
  if (!offsets_fit(x)) {
    return broken(argument + ".stride", shape_text(x.stride), "the tensor reaches further than memory does",
                  "give strides in elements");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(x.data);
  if (const std::int64_t size = bytes_of(dtype); address % static_cast<std::uintptr_t>(size) != 0) {
    return broken(argument + ".data", "misaligned",
                  "it must be a multiple of " + std::to_string(size) + " bytes for " + name_of(dtype),
                  "copy the tensor to aligned memory");
  }
  if (dtype != DType::s4) return {};
  const bool packed =
      x.stride[3] == 1 && x.stride[0] % 2 == 0 && x.stride[1] % 2 == 0 && x.stride[2] % 2 == 0;
  if (packed) return {};
  return broken(argument + ".stride", shape_text(x.stride), "s4 needs 1 along dim and even steps elsewhere",
                "pad each row to a whole byte");
}

Status validate_output(const std::string& argument, const TensorView& x, DType dtype, Device device,
                       const Axes& shape) {
  if (x.shape != shape) {
    return broken(argument + ".shape", shape_text(x.shape), "the problem's is " + shape_text(shape),
                  "pass a tensor of that shape");
  }
  OCTET_TRY(validate_tensor(argument, x, dtype, device));
  if (is_empty(shape)) return {};
  for (std::int64_t step : x.stride) {
    if (step < 0) {
      return broken(argument + ".stride", shape_text(x.stride), "an output's strides must not be negative",
                    "write to a plain tensor and flip its view");
    }
  }
  if (axes_nest(x)) return {};
  return broken(argument + ".stride", shape_text(x.stride), "elements of an output must not share memory",
                "give each axis a stride beyond what the inner axes reach");
}

}  // namespace octet
