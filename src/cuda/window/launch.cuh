// The launch of attention from plain windows.
#pragma once
#include <array>
#include <cstdint>

#include "cuda/attn/call.h"
#include "cuda/quant/short_sequences.cuh"
#include "octet/types.hpp"

namespace octet::cuda::window {

/// Of a window, at most and exactly.
inline constexpr std::int32_t kTokens = 64, kChannels = 32;

/// What a problem asks for.
struct Asked {
  Scheme scheme;
  Form form;  ///< of mma's kernels
  std::int32_t batch, heads;
};

/// Queues attention of K, V and Q as they come, if they are windows and the scheme has a kernel for them;
/// whether it has. V of a scheme that multiplies it in f16 has no coding. error: a cudaError_t of the launch.
bool launch(const Asked& asked, const Call& call, const std::array<ShortOperand, 3>& operands, void* stream,
            int& error);

}  // namespace octet::cuda::window
