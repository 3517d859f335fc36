// A table of the host's into device memory.
#pragma once
#include <vector>

namespace octet::cuda::runtime {

/// Copies the table to `to`, device memory. Asynchronous on the stream, and captured with its numbers: they
/// travel in kernels' parameters, so the host's memory may go at once. A cudaError_t.
int put_table(const std::vector<float>& table, float* to, void* stream);

}  // namespace octet::cuda::runtime
