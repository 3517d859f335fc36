// One stored run of the GPU suites, asked for its figures.
#pragma once
#include <string>
#include <vector>

#include "bench/runs.h"

namespace octet::tool {

class GpuRun {
 public:
  explicit GpuRun(const Json& document) : document_(document) {}

  const Json& document() const { return document_; }
  const Json& rows() const { return document_["rows"]; }

  /// The row of a variant; null where it was not measured.
  const Json* find(const std::string& workload, const std::string& variant,
                   const std::string& quantisation = "excluded") const;

  /// The fastest of PyTorch's SDPA backends, cuDNN and flash in bf16; null where none was measured.
  const Json* best_sdpa(const std::string& workload) const;
  /// octet's fastest with 8-bit operands, codes given.
  const Json* fastest_octet(const std::string& workload) const;

  /// Workloads in the order of the rows, measured or not; of one suite where it is named.
  std::vector<std::string> workloads(const std::string& suite = {}) const;
  /// Variants in the order of the rows, octet's and then peers'; of one workload where it is named.
  enum class Side { octet, peer };
  std::vector<std::string> variants(Side side, const std::string& workload = {}) const;

  /// "6 x 197 x 64", from any row of the workload.
  std::string shape(const std::string& workload) const;

 private:
  const Json& document_;
};

inline constexpr const char* kSdpaCudnn = "PyTorch SDPA cuDNN bf16";
inline constexpr const char* kSdpaFlash = "PyTorch SDPA flash bf16";
inline constexpr const char* kComfyKitchen = "comfy-kitchen int8";

}  // namespace octet::tool
