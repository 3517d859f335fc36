// The kernel that multiplies from registers as fast as mma.sync can.
#pragma once

namespace octet::tool::gpu {

inline constexpr int kPeakThreads = 256, kPeakBlocksPerProcessor = 2;  // 16 warps on each processor
struct PeakGrid {
  int blocks = 0;
  bool bytes = true;  ///< m16n8k32 s8 -> s32, else m16n8k16 f16 -> f32
};

/// Queues one run on the stream; sink: an int of each thread. Returns a cudaError_t.
int launch_peak(const PeakGrid& grid, void* sink, void* stream);
/// Multiplications and additions of one run.
double peak_operations(const PeakGrid& grid);

}  // namespace octet::tool::gpu
