// What clusters of a kernel's blocks of threads the current device runs.
#pragma once
#include <cstdint>

namespace octet::cuda::runtime {

/// Blocks of a kernel that are to be a cluster.
struct ClusterShape {
  const void* kernel = nullptr;
  std::int32_t blocks = 0, threads = 0;  ///< of the cluster; of a block
  std::int64_t shared_bytes = 0;         ///< of a block
  bool operator==(const ClusterShape&) const = default;
};

/// How many of them run at once; 0: the device, or the code that it runs, knows none of that size. Asked once
/// a shape.
std::int64_t clusters_at_once(const ClusterShape& shape);

}  // namespace octet::cuda::runtime
