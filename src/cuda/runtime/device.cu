#include "cuda/runtime/device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace octet::cuda::runtime {
namespace {

/// What kernels are chosen by.
struct Device {
  int major = 0, minor = 0, processors = 0, shared_of_block = 0, shared_of_processor = 0, shared_reserved = 0,
      launches_together = 0;
};

Device asked(int number, bool& is_told) {
  Device d;
  const struct {
    cudaDeviceAttr which;
    int* value;
  } attributes[] = {{cudaDevAttrComputeCapabilityMajor, &d.major},
                    {cudaDevAttrComputeCapabilityMinor, &d.minor},
                    {cudaDevAttrMultiProcessorCount, &d.processors},
                    {cudaDevAttrMaxSharedMemoryPerBlockOptin, &d.shared_of_block},
                    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, &d.shared_of_processor},
                    {cudaDevAttrReservedSharedMemoryPerBlock, &d.shared_reserved},
                    {cudaDevAttrCooperativeLaunch, &d.launches_together}};
  is_told = true;
  for (const auto& a : attributes) is_told &= cudaDeviceGetAttribute(a.value, a.which, number) == cudaSuccess;
  if (is_told) return d;
  cudaGetLastError();  // what failed here is told by the caller, not by the next launch
  return {};
}

/// The current device; zeros where there is none. A call asks some forty times, so devices are asked once.
Device current() {
  constexpr int kMost = 64;
  static std::array<Device, kMost> known;
  static std::array<std::atomic<bool>, kMost> is_known{};
  static std::mutex mutex;
  const int number = runtime::number();
  if (number < 0) return {};
  const auto i = static_cast<std::size_t>(number);
  if (number < kMost && is_known[i].load(std::memory_order_acquire)) return known[i];
  bool is_told = false;
  const Device d = asked(number, is_told);
  const std::lock_guard lock(mutex);
  if (is_told && number < kMost && !is_known[i].load(std::memory_order_relaxed)) {
    known[i] = d;
    is_known[i].store(true, std::memory_order_release);
  }
  return d;
}

}  // namespace

std::string refusal() {
  constexpr int kLeastMajor = 8;  // mma.sync of 8-bit codes in this shape, cp.async: Ampere
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    cudaGetLastError();
    return std::string("this process finds no CUDA device (") +
           (error == cudaSuccess ? "there is none" : cudaGetErrorString(error)) + ")";
  }
  const Device d = current();
  if (d.major >= kLeastMajor) return {};
  return "the current CUDA device has compute capability " + std::to_string(d.major) + "." +
         std::to_string(d.minor) + "; 8.0 (Ampere) and newer is needed";
}

int number() {
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) return device;
  cudaGetLastError();
  return -1;
}

std::int64_t shared_bytes() { return current().shared_of_block; }
std::int64_t processors() { return current().processors; }

bool is_hopper() {
  const Device d = current();
  return d.major == 9 && d.minor == 0;
}

bool multiplies_e4m3() {
  const Device d = current();
  return d.major > 8 || (d.major == 8 && d.minor >= 9);
}

bool launches_together() { return current().launches_together != 0; }

std::int64_t blocks_of(std::int64_t shared_bytes) {
  const Device d = current();
  return d.shared_of_processor / (shared_bytes + d.shared_reserved);
}
std::int64_t bytes_of_blocks(std::int64_t blocks) {
  const Device d = current();
  const std::int64_t least = d.shared_of_processor / (blocks + 1) - d.shared_reserved + 1;
  return std::clamp<std::int64_t>(least, 0, d.shared_of_block);
}

int may_overlap(const void* kernel, bool* overlaps) {
  struct Place {
    const void* kernel;
    int device;
    bool operator==(const Place&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Place& p) const {
      return std::hash<const void*>()(p.kernel) + static_cast<std::size_t>(p.device);
    }
  };
  static std::unordered_map<Place, bool, Hash> known;
  static std::shared_mutex mutex;
  constexpr int kLeastPtx = 90;
  Place place{kernel, 0};
  if (const cudaError_t error = cudaGetDevice(&place.device); error != cudaSuccess) return error;
  {
    const std::shared_lock lock(mutex);
    if (const auto found = known.find(place); found != known.end()) {
      *overlaps = found->second;
      return cudaSuccess;
    }
  }
  cudaFuncAttributes built;
  if (const cudaError_t error = cudaFuncGetAttributes(&built, kernel); error != cudaSuccess) return error;
  *overlaps = built.ptxVersion >= kLeastPtx;
  const std::unique_lock lock(mutex);
  known.emplace(place, *overlaps);
  return cudaSuccess;
}

}  // namespace octet::cuda::runtime
