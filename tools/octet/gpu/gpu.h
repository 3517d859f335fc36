// What the bench needs of an NVIDIA GPU: memory, graphs and their times, and the peak of its matrix units. No
// CUDA header: a build without nvcc has the same functions, which say why they do nothing (absent.cpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "octet/status.hpp"

namespace octet::tool::gpu {

struct DeviceInfo {
  std::string name;        ///< "NVIDIA H200"
  std::string capability;  ///< "9.0"
  std::string cuda;        ///< the newest that the driver runs, "13.0"
  std::string pci_bus_id;  ///< as NVML names it too
  int processors = 0;      ///< streaming multiprocessors
};
/// The first device that this process sees, which the functions below use. unsupported, with what to do:
/// there is none, or this octet was built without CUDA.
Result<DeviceInfo> find_device();

/// Device memory, freed with the object.
class Memory {
 public:
  static Result<Memory> allocate(std::int64_t bytes);  ///< out_of_memory
  void* data() const { return memory_.get(); }
  std::int64_t bytes() const { return bytes_; }
  /// From its beginning; not longer than it. Returns when all is copied.
  Status upload(std::span<const std::byte> from);
  Status download(std::span<std::byte> to) const;

 private:
  struct Free {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Free> memory_;
  std::int64_t bytes_ = 0;
};

class Stream {
 public:
  static Result<Stream> create();
  void* handle() const { return stream_.get(); }  ///< a cudaStream_t
  Status wait() const;                            ///< until all that is queued on it has run

 private:
  struct Destroy {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Destroy> stream_;
};

/// A place in a stream's queue.
class Event {
 public:
  static Result<Event> create();
  Status record(const Stream& stream);  ///< after what is queued by now
  Status wait() const;                  ///< until the stream has come there

 private:
  friend class Graph;
  struct Destroy {
    void operator()(void* p) const;
  };
  std::unique_ptr<void, Destroy> event_;
};

/// Calls that were recorded once and are launched together: what is measured is the GPU and no launch of the
/// host's.
class Graph {
 public:
  /// Records `calls` of `call`, which queues its work on the stream. Its first error ends the recording. The
  /// stream must outlive the graph.
  static Result<Graph> record(const Stream& stream, int calls, const std::function<Status()>& call);
  Status launch() const;            ///< queues the graph on the stream
  Result<double> replay_seconds();  ///< of one launch, between two events on the stream; waits for it

 private:
  struct Parts;
  struct Destroy {
    void operator()(Parts* p) const;
  };
  std::unique_ptr<Parts, Destroy> parts_;
};

/// What mma.sync multiplies.
enum class Format { s8, f16 };
/// 1e9 operations a second of all processors: m16n8k32 s8 -> s32, or m16n8k16 f16 -> f32, from registers.
Result<double> peak_rate(const Stream& stream, Format format);

}  // namespace octet::tool::gpu
