// Device memory of a test, poisoned, between margins that are looked at.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Whether whoever reads or writes a margin is stopped there and then. Nothing is where memory is a GPU's;
/// where it is the host's, tests/cuda/on_host/runtime.cpp tells the address sanitizer.
enum class Margin { is_forbidden, is_allowed };
[[gnu::weak]] void set_margin(const std::byte* margin, Margin is);

inline Status checked(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return {Code::internal, std::string(what) + ": " + cudaGetErrorString(error)};
}

/// Memory that the process has taken and nobody uses, of the device or pinned on the host. note: to take and
/// to give back either waits for the device, which processes of tests share, and takes longer than what is
/// tested. A piece is kept for its own size alone, so that compute-sanitizer knows where it ends.
class Spare {
 public:
  // Of the process, and never destroyed: the driver may be gone before what is destroyed at exit.
  static Spare& of_device() {
    static Spare& all = *new Spare(cudaMalloc, cudaFree);
    return all;
  }
  static Spare& of_host() {
    static Spare& all = *new Spare(cudaMallocHost, cudaFreeHost);
    return all;
  }

  Status take(std::size_t bytes, void** memory) {
    if (std::vector<void*>& of_size = pieces_[bytes]; !of_size.empty()) {
      *memory = of_size.back();
      of_size.pop_back(), bytes_ -= bytes;
      return {};
    }
    if (allocate_(memory, bytes) == cudaSuccess) return {};
    cudaGetLastError();  // it is the next one that counts
    free_all();
    return checked(allocate_(memory, bytes), "memory of a test");
  }
  /// memory: of take(), which nothing on the device uses any more.
  void give_back(std::size_t bytes, void* memory) {
    if (bytes_ + bytes > kMost) free_all();
    pieces_[bytes].push_back(memory), bytes_ += bytes;
    if (bytes_ > kMost) free_all();
  }

 private:
  using Allocate = cudaError_t(void**, std::size_t);
  using Free = cudaError_t(void*);
  static constexpr std::size_t kMost = std::size_t{1} << 30;

  Spare(Allocate* allocate, Free* free) : allocate_(allocate), free_(free) {}

  void free_all() {
    for (const auto& [bytes, pieces] : pieces_)
      for (void* piece : pieces) free_(piece);
    pieces_.clear(), bytes_ = 0;
  }

  Allocate* const allocate_;
  Free* const free_;
  std::map<std::size_t, std::vector<void*>> pieces_;
  std::size_t bytes_ = 0;  ///< of all pieces
};

/// Memory of Spare's, for as long as a call takes.
class Piece {
 public:
  Piece(Spare& spare, std::size_t bytes) : spare_(spare), bytes_(bytes) {
    status = spare_.take(bytes_, &data_);
    if (!status.ok()) data_ = nullptr;
  }
  ~Piece() {
    if (data_) spare_.give_back(bytes_, data_);
  }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

  Status status;

 private:
  Spare& spare_;
  const std::size_t bytes_;
  void* data_ = nullptr;
};

/// All device memory of one call. Copies and poison are queued on the default stream, by way of pinned
/// memory: processes take turns on a device, and each time that one waits there costs it a turn.
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
    if (bytes <= 0) return device;
    const auto size = static_cast<std::size_t>(bytes);
    std::byte* const staged = stage(size);
    if (!status.ok()) return device;
    std::memcpy(staged, host, size);
    note(checked(cudaMemcpyAsync(device, staged, size, cudaMemcpyHostToDevice), "cudaMemcpyAsync"));
    return device;
  }
  /// Poison, between margins of the same.
  void* take(std::int64_t bytes) {
    const Piece& piece = *memory_.emplace_back(
        std::make_unique<Piece>(Spare::of_device(), static_cast<std::size_t>(bytes + 2 * kMargin)));
    note(piece.status);
    if (!status.ok()) return nullptr;
    set_margins(piece, Margin::is_allowed);
    note(checked(cudaMemsetAsync(piece.data(), kPoison, piece.bytes()), "cudaMemsetAsync"));
    set_margins(piece, Margin::is_forbidden);
    return piece.data() + kMargin;
  }
  /// host: has what `device` holds by now after the next wait.
  void get(const TensorView& device, const TensorView& host) {
    if (!host.data) return;
    const auto bytes = static_cast<std::size_t>(capi::span_bytes(host));
    std::byte* const staged = stage(bytes);
    if (!status.ok()) return;
    note(checked(cudaMemcpyAsync(staged, device.data, bytes, cudaMemcpyDeviceToHost), "cudaMemcpyAsync"));
    asked_.push_back({host.data, staged, bytes});
  }
  void wait() {
    note(checked(cudaDeviceSynchronize(), "the call on the device"));
    if (status.ok())
      for (const Asked& asked : asked_) std::memcpy(asked.host, asked.staged, asked.bytes);
    asked_.clear();
  }
  /// Waits.
  void look_at_margins() {
    constexpr std::size_t kBytes = kMargin;
    const std::size_t all = 2 * kBytes * memory_.size();
    std::byte* const margins = stage(all);
    for (std::size_t i = 0; status.ok() && i < memory_.size(); ++i) {
      const Piece& piece = *memory_[i];
      std::byte* const to = margins + 2 * kBytes * i;
      set_margins(piece, Margin::is_allowed);
      note(checked(cudaMemcpyAsync(to, piece.data(), kBytes, cudaMemcpyDeviceToHost), "cudaMemcpyAsync"));
      note(checked(
          cudaMemcpyAsync(to + kBytes, piece.data() + piece.bytes() - kBytes, kBytes, cudaMemcpyDeviceToHost),
          "cudaMemcpyAsync"));
    }
    wait();
    const auto is_poison = [](std::byte byte) { return byte == std::byte{kPoison}; };
    if (status.ok() && !std::all_of(margins, margins + all, is_poison))
      status = Status{Code::internal, "device memory beside a tensor was written"};
  }

  Status status;

 private:
  /// What the host is to have from pinned memory once the device has been waited for.
  struct Asked {
    void* host;
    const std::byte* staged;
    std::size_t bytes;
  };

  /// Pinned memory until the end; null where there is none, which `status` says.
  std::byte* stage(std::size_t bytes) {
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 1));  // few sizes: pieces find users
    const Piece& piece = *staged_.emplace_back(std::make_unique<Piece>(Spare::of_host(), size));
    note(piece.status);
    return piece.data();
  }
  static void set_margins(const Piece& piece, Margin is) {
    if (!set_margin) return;
    set_margin(piece.data(), is), set_margin(piece.data() + piece.bytes() - kMargin, is);
  }
  void note(const Status& s) {
    if (status.ok()) status = s;
  }

  std::vector<std::unique_ptr<Piece>> memory_, staged_;
  std::vector<Asked> asked_;
};

}  // namespace octet::testing
