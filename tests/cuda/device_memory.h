// Device memory of a test, poisoned, between margins that are looked at.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capi/operands.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::testing {

inline constexpr std::int64_t kMargin =
    256;  // bytes; NaN in every float format, and no code of ours in pairs
inline constexpr unsigned char kPoison = 0xff;

inline Status checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return {Code::internal, std::string(what) + ": " + cudaGetErrorString(error)};
}

/// Device memory with margins, for as long as a call takes.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(bytes) {
    status = checked(cudaMalloc(&all_, static_cast<std::size_t>(bytes + 2 * kMargin)), "cudaMalloc");
    if (status.ok())
      status =
          checked(cudaMemset(all_, kPoison, static_cast<std::size_t>(bytes + 2 * kMargin)), "cudaMemset");
  }
  ~Memory() { cudaFree(all_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(all_) + kMargin; }
  bool intact() const {
    std::vector<unsigned char> margin(kMargin);
    for (const std::int64_t at : {std::int64_t{0}, kMargin + bytes_}) {
      if (cudaMemcpy(margin.data(), static_cast<std::byte*>(all_) + at, kMargin, cudaMemcpyDeviceToHost) !=
          cudaSuccess)
        return false;
      if (std::any_of(margin.begin(), margin.end(), [](unsigned char b) { return b != kPoison; }))
        return false;
    }
    return true;
  }

  Status status;

 private:
  std::int64_t bytes_;
  void* all_ = nullptr;
};

/// All device memory of one call.
class DeviceMemory {
 public:
  /// A copy of a host tensor, gaps included.
  TensorView put(const TensorView& x) {
    if (!x.data) return x;
    TensorView y = x;
    y.device = Device::cuda;
    y.data = put(x.data, capi::span_bytes(x));
    return y;
  }
  QuantizedTensor put(const QuantizedTensor& x) {
    QuantizedTensor y = x;
    y.codes = put(x.codes), y.scales = put(x.scales);
    y.channel_exponent = put(x.channel_exponent), y.mean = put(x.mean);
    return y;
  }
  void* put(const void* host, std::int64_t bytes) {
    void* device = take(bytes);
    if (device && bytes > 0)
      note(checked(cudaMemcpy(device, host, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice),
                   "cudaMemcpy"));
    return device;
  }
  void* take(std::int64_t bytes) {
    memory_.push_back(std::make_unique<Memory>(bytes));
    note(memory_.back()->status);
    return memory_.back()->data();
  }
  void get(const TensorView& device, const TensorView& host) {
    if (!host.data) return;
    note(checked(cudaMemcpy(host.data, device.data, static_cast<std::size_t>(capi::span_bytes(host)),
                            cudaMemcpyDeviceToHost),
                 "cudaMemcpy"));
  }
  void wait() { note(checked(cudaDeviceSynchronize(), "the call on the device")); }
  void look_at_margins() {
    for (const auto& m : memory_)
      if (status.ok() && !m->intact())
        status = Status{Code::internal, "device memory beside a tensor was written"};
  }

  Status status;

 private:
  void note(const Status& s) {
    if (status.ok()) status = s;
  }
  std::vector<std::unique_ptr<Memory>> memory_;
};

}  // namespace octet::testing
