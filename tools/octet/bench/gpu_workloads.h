// The shapes of the suites vit, llm-prefill and decode on a GPU.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "bench/workloads.h"
#include "octet/status.hpp"

namespace octet::tool {

struct GpuWorkload {
  const char* suite;
  CpuWorkload shape;
  /// Whether its rows have their energy unless the user says otherwise: two seconds a row are for a few
  /// shapes.
  bool weighed = false;
  const char* more_schemes = "";  ///< beside the usual ones: what an experiment of a paper compares, and more
};

/// vit: QFlash's A1 to A7 (its table: heads of ViT and DeiT tiny, small and base; windows of the stages of
/// Swin-T and Swin-S, a window being a batch entry), batch 1 and 8. llm-prefill: INT-FlashAttention's
/// protocol (batch 4, 32 heads, dim 64), and the grid of FlashAttention-3's paper (16k tokens in all, hidden
/// size 2048) from 4k on, with one model of 32 heads over 8. A2-b1024: QFlash's ablation. decode: one query
/// or a few against long keys, in memory as any other, and in a cache.
std::span<const GpuWorkload> gpu_workloads();

/// Those of a suite, or of the names among them. Errors: an unknown name, with those that there are.
Result<std::vector<const GpuWorkload*>> chosen_gpu_workloads(const std::string& suite,
                                                             const std::vector<std::string>& names);

/// Which of them have their energy measured: "" as the table says, "all", "none", or names with commas.
Result<std::vector<std::string>> weighed_workloads(const std::vector<const GpuWorkload*>& chosen,
                                                   const std::string& option);

}  // namespace octet::tool
