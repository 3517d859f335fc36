// What launches share.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/quant/rows.cuh"

namespace octet::cuda {

inline cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

/// Sequences of all heads.
inline std::uint32_t units_of(const RowReading& rows) {
  return static_cast<std::uint32_t>(rows.order.sequences.count * rows.x.shape[1]);
}

/// Blocks of kThreads in which each thread has so many rows.
inline std::uint32_t blocks_for(const RowReading& rows, int rows_of_thread) {
  const std::int64_t of_block = (std::int64_t{kThreads} >> rows.lanes_log2) * rows_of_thread;
  return static_cast<std::uint32_t>((rows.order.rows + of_block - 1) / of_block);
}

/// The device's multiprocessors.
std::uint32_t processors();

}  // namespace octet::cuda
