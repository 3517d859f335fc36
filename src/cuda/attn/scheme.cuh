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

/// Whether rows of a tensor of elements of `bytes` can be read 16 bytes at a time.
__device__ __forceinline__ bool is_in_chunks(const DeviceTensor& x, int bytes) {
  const std::int64_t strides = x.stride[0] | x.stride[1] | x.stride[2];
  return x.stride[3] == 1 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 && strides * bytes % 16 == 0;
}

}  // namespace octet::cuda::attn
