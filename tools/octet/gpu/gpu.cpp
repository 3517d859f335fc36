#include "gpu/gpu.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "gpu/peak_kernel.h"

namespace octet::tool::gpu {
namespace {

Status status_of(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // so that the next call does not report it again
  return {error == cudaErrorMemoryAllocation ? Code::out_of_memory : Code::internal,
          fmt::format("{} failed: {}", what, cudaGetErrorString(error))};
}

cudaStream_t of(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle()); }

std::string version_text(int version) {  // 13000: 13.0
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

Result<DeviceInfo> find_device() {
  int count = 0, driver = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    (void)cudaGetLastError();
    return Status{Code::unsupported,
                  fmt::format("no NVIDIA GPU is visible ({}); run on a machine with one and its driver, and "
                              "check CUDA_VISIBLE_DEVICES",
                              error != cudaSuccess ? cudaGetErrorString(error) : "0 devices")};
  }
  cudaDeviceProp properties{};
  std::array<char, 32> bus{};
  if (Status s = status_of(cudaGetDeviceProperties(&properties, 0), "reading the GPU's properties"); !s.ok())
    return s;
  if (Status s = status_of(cudaDeviceGetPCIBusId(bus.data(), bus.size(), 0), "reading the GPU's PCI address");
      !s.ok())
    return s;
  if (Status s = status_of(cudaDriverGetVersion(&driver), "reading the driver's version"); !s.ok()) return s;
  return DeviceInfo{properties.name, fmt::format("{}.{}", properties.major, properties.minor),
                    version_text(driver), bus.data(), properties.multiProcessorCount};
}

Result<Memory> Memory::allocate(std::int64_t bytes) {
  Memory memory;
  void* data = nullptr;
  // note: at least one byte, so that an empty part has an address too.
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  if (Status s = status_of(cudaMalloc(&data, size), "allocating GPU memory"); !s.ok()) return s;
  memory.memory_.reset(data), memory.bytes_ = bytes;
  return memory;
}
Status Memory::upload(std::span<const std::byte> from) {
  return status_of(cudaMemcpy(data(), from.data(), from.size(), cudaMemcpyHostToDevice),
                   "copying to the GPU");
}
Status Memory::download(std::span<std::byte> to) const {
  return status_of(cudaMemcpy(to.data(), data(), to.size(), cudaMemcpyDeviceToHost), "copying from the GPU");
}
void Memory::Free::operator()(void* p) const { (void)cudaFree(p); }

Result<Stream> Stream::create() {
  cudaStream_t made = nullptr;
  if (Status s = status_of(cudaStreamCreate(&made), "creating a stream"); !s.ok()) return s;
  Stream stream;
  stream.stream_.reset(made);
  return stream;
}
Status Stream::wait() const { return status_of(cudaStreamSynchronize(of(*this)), "running on the GPU"); }
void Stream::Destroy::operator()(void* p) const { (void)cudaStreamDestroy(static_cast<cudaStream_t>(p)); }

Result<Event> Event::create() {
  cudaEvent_t made = nullptr;
  if (Status s = status_of(cudaEventCreate(&made), "creating an event"); !s.ok()) return s;
  Event event;
  event.event_.reset(made);
  return event;
}
Status Event::record(const Stream& stream) {
  return status_of(cudaEventRecord(static_cast<cudaEvent_t>(event_.get()), of(stream)), "recording an event");
}
Status Event::wait() const {
  return status_of(cudaEventSynchronize(static_cast<cudaEvent_t>(event_.get())), "running on the GPU");
}
void Event::Destroy::operator()(void* p) const { (void)cudaEventDestroy(static_cast<cudaEvent_t>(p)); }

struct Graph::Parts {
  const Stream* stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  Event start, end;
};

void Graph::Destroy::operator()(Parts* parts) const {
  if (parts->ready) (void)cudaGraphExecDestroy(parts->ready);
  if (parts->graph) (void)cudaGraphDestroy(parts->graph);
  delete parts;
}

Result<Graph> Graph::record(const Stream& stream, int calls, const std::function<Status()>& call) {
  Graph graph;
  graph.parts_.reset(new Parts);
  Parts& parts = *graph.parts_;
  parts.stream = &stream;
  for (Event* event : {&parts.start, &parts.end}) {
    Result<Event> made = Event::create();
    if (!made.ok()) return made.status();
    *event = made.take();
  }
  if (Status s = status_of(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal),
                           "recording a graph");
      !s.ok())
    return s;
  Status recorded;
  for (int i = 0; i < calls && recorded.ok(); ++i) recorded = call();
  const Status ended = status_of(cudaStreamEndCapture(of(stream), &parts.graph), "recording a graph");
  if (!recorded.ok()) return recorded;
  if (!ended.ok()) return ended;
  if (Status s = status_of(cudaGraphInstantiate(&parts.ready, parts.graph, 0), "making a graph ready");
      !s.ok())
    return s;
  return graph;
}

Status Graph::launch() const {
  return status_of(cudaGraphLaunch(parts_->ready, of(*parts_->stream)), "launching a graph");
}

Result<double> Graph::replay_seconds() {
  Parts& parts = *parts_;
  if (Status s = parts.start.record(*parts.stream); !s.ok()) return s;
  if (Status s = launch(); !s.ok()) return s;
  if (Status s = parts.end.record(*parts.stream); !s.ok()) return s;
  if (Status s = parts.end.wait(); !s.ok()) return s;
  float ms = 0;
  if (Status s = status_of(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(parts.start.event_.get()),
                                                static_cast<cudaEvent_t>(parts.end.event_.get())),
                           "timing a graph");
      !s.ok())
    return s;
  return 1e-3 * static_cast<double>(ms);
}

Result<double> peak_rate(const Stream& stream, Format format) {
  Result<DeviceInfo> device = find_device();
  if (!device.ok()) return device.status();
  const PeakGrid grid{device.value().processors * kPeakBlocksPerProcessor, format == Format::s8};
  Result<Memory> sink = Memory::allocate(grid.blocks * kPeakThreads * std::int64_t{sizeof(int)});
  if (!sink.ok()) return sink.status();
  const auto launch = [&] {
    return status_of(static_cast<cudaError_t>(launch_peak(grid, sink.value().data(), stream.handle())),
                     "launching the peak kernel");
  };
  if (Status s = launch(); !s.ok()) return s;
  if (Status s = stream.wait(); !s.ok()) return s;
  Result<Graph> graph = Graph::record(stream, 1, launch);
  if (!graph.ok()) return graph.status();
  constexpr int kReplays = 7;
  std::vector<double> seconds;
  for (int i = 0; i < kReplays; ++i) {
    Result<double> replay = graph.value().replay_seconds();
    if (!replay.ok()) return replay.status();
    seconds.push_back(replay.value());
  }
  std::sort(seconds.begin(), seconds.end());
  return 1e-9 * peak_operations(grid) / seconds[kReplays / 2];
}

}  // namespace octet::tool::gpu
