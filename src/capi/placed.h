// Planned tensors, whose data are offsets, at their places in a workspace.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "octet/types.hpp"

namespace octet::capi {

/// A tensor that is not planned, of shape 0, stays as it is.
inline TensorView placed(TensorView x, void* workspace) {
  if (x.shape == std::array<std::int64_t, 4>{}) return x;
  x.data = static_cast<std::byte*>(workspace) + reinterpret_cast<std::uintptr_t>(x.data);
  return x;
}

inline QuantizedTensor placed(QuantizedTensor x, void* workspace) {
  x.codes = placed(x.codes, workspace);
  x.scales = placed(x.scales, workspace);
  x.channel_exponent = placed(x.channel_exponent, workspace);
  x.mean = placed(x.mean, workspace);
  return x;
}

}  // namespace octet::capi
