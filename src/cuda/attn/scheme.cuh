// The scheme of a call, made where its tensors' scales can be read.
#pragma once
#include <cstdint>

#include "cuda/attn/call.h"

namespace octet::cuda::attn {

template <class S>
__device__ __forceinline__ S scheme_of(const Call& call) {
  Prepare prepare = call.prepare;
  const auto tensor_scale = [](const DeviceOperand& x) { return *static_cast<const float*>(x.scales.data); };
  if (call.tensor_scales[0]) prepare.q_scale = tensor_scale(call.q);
  if (call.tensor_scales[1]) prepare.k_scale = tensor_scale(call.k);
  if (call.tensor_scales[2]) prepare.v_scale = tensor_scale(call.v);
  return S::prepare(prepare);
}

}  // namespace octet::cuda::attn
