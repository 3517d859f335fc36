// Device memory of a test, poisoned, between margins that are looked at.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
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

/// Device memory that the process has taken and nobody uses. note: to take and to give back device memory
/// waits for the device, which processes of tests share, and took longer than what is tested. Each piece is
/// kept for its own size alone, so that compute-sanitizer knows where it ends.
class Spare {
 public:
  static Spare& of_process() {
    static Spare& all = *new Spare;  // the driver may be gone before what is destroyed at exit
    return all;
  }

  Status take(std::size_t bytes, void** memory) {
    if (std::vector<void*>& of_size = pieces_[bytes]; !of_size.empty()) {
      *memory = of_size.back();
      of_size.pop_back(), bytes_ -= bytes;
      return {};
    }
    if (cudaMalloc(memory, bytes) == cudaSuccess) return {};
    cudaGetLastError();  // it is the next one that counts
    free_all();
    return checked(cudaMalloc(memory, bytes), "cudaMalloc");
  }
  /// memory: of take(), which nothing on the device uses any more.
  void give_back(std::size_t bytes, void* memory) {
    if (bytes_ + bytes > kMost) free_all();
    pieces_[bytes].push_back(memory), bytes_ += bytes;
    if (bytes_ > kMost) free_all();
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 30;

  void free_all() {
    for (const auto& [bytes, pieces] : pieces_)
      for (void* piece : pieces) cudaFree(piece);
    pieces_.clear(), bytes_ = 0;
  }

  std::map<std::size_t, std::vector<void*>> pieces_;
  std::size_t bytes_ = 0;  ///< of all pieces
};

/// Device memory with margins, for as long as a call takes.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(bytes) {
    status = Spare::of_process().take(size(), &all_);
    if (status.ok()) status = checked(cudaMemset(all_, kPoison, size()), "cudaMemset");
  }
  ~Memory() {
    if (all_) Spare::of_process().give_back(size(), all_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(all_) + kMargin; }

  /// Both margins on their way to `to`, 2 kMargin bytes.
  cudaError_t ask_for_margins(unsigned char* to) const {
    const auto* const from = static_cast<const std::byte*>(all_);
    const cudaError_t error = cudaMemcpyAsync(to, from, kMargin, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) return error;
    return cudaMemcpyAsync(to + kMargin, from + kMargin + bytes_, kMargin, cudaMemcpyDeviceToHost);
  }

  Status status;

 private:
  std::size_t size() const { return static_cast<std::size_t>(bytes_ + 2 * kMargin); }

  std::int64_t bytes_;
  void* all_ = nullptr;
};

/// Host memory that the device copies to while the host goes on.
class Pinned {
 public:
  /// At least so many bytes; what they held before may be lost.
  static unsigned char* of_process(std::size_t bytes) {
    static Pinned& memory = *new Pinned;
    if (bytes > memory.bytes_) {
      cudaFreeHost(memory.data_);
      memory.data_ = nullptr, memory.bytes_ = 0;
      if (cudaMallocHost(&memory.data_, bytes) != cudaSuccess) return nullptr;
      memory.bytes_ = bytes;
    }
    return static_cast<unsigned char*>(memory.data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// All device memory of one call.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory() { cudaDeviceSynchronize(); }  // others have the memory next
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

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
    if (!status.ok() || memory_.empty()) return;
    constexpr std::size_t kOfPiece = 2 * kMargin;
    unsigned char* const margins = Pinned::of_process(memory_.size() * kOfPiece);
    if (!margins) return note({Code::internal, "no host memory for margins"});
    for (std::size_t i = 0; i < memory_.size(); ++i)
      note(checked(memory_[i]->ask_for_margins(margins + i * kOfPiece), "cudaMemcpyAsync"));
    wait();
    const auto is_poison = [](unsigned char byte) { return byte == kPoison; };
    if (status.ok() && !std::all_of(margins, margins + memory_.size() * kOfPiece, is_poison))
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
