// A tool that was built without CUDA: there is no GPU to measure.
#include "gpu/gpu.h"

namespace octet::tool::gpu {
namespace {
Status absent() {
  return {Code::unsupported,
          "this octet was built without CUDA; configure with OCTET_CUDA=ON where nvcc is installed"};
}
}  // namespace

struct Graph::Parts {};

Result<DeviceInfo> find_device() { return absent(); }

Result<Memory> Memory::allocate(std::int64_t) { return absent(); }
Status Memory::upload(std::span<const std::byte>) { return absent(); }
Status Memory::download(std::span<std::byte>) const { return absent(); }
void Memory::Free::operator()(void*) const {}

Result<Stream> Stream::create() { return absent(); }
Status Stream::wait() const { return absent(); }
void Stream::Destroy::operator()(void*) const {}

Result<Event> Event::create() { return absent(); }
Status Event::record(const Stream&) { return absent(); }
Status Event::wait() const { return absent(); }
void Event::Destroy::operator()(void*) const {}

Result<Graph> Graph::record(const Stream&, int, const std::function<Status()>&) { return absent(); }
Status Graph::launch() const { return absent(); }
Result<double> Graph::replay_seconds() { return absent(); }
void Graph::Destroy::operator()(Parts* parts) const { delete parts; }

Result<double> peak_rate(const Stream&, Format) { return absent(); }

}  // namespace octet::tool::gpu
