// The kernels of encode_tokens.cu.
#pragma once
#include "cuda/quant/scaling.cuh"

namespace octet::cuda {

/// Whether launch_encode_tokens() has a kernel for these rows and codes.
bool takes_tokens(const RowReading& rows, const Coding& coding);

/// launch_encode() for them.
void launch_encode_tokens(const RowReading& rows, const Coding& coding, void* stream);

}  // namespace octet::cuda
