#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "probe/probe.h"

namespace octet::probe {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kBytes = std::size_t{256} << 20;  // what one core keeps in its caches is less
constexpr std::size_t kChunk = std::size_t{1} << 20;    // 0.03 to 0.1 ms

/// The buffer, in large pages where the system gives them: a cache of keys and values that is read at peak
/// has them too.
class Buffer {
 public:
  Buffer() : data_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (!there()) return;
    madvise(data_, kBytes, MADV_HUGEPAGE);
    std::memset(data_, 1, kBytes);  // or every page would be the one page of zeros
  }
  ~Buffer() {
    if (there()) munmap(data_, kBytes);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  bool there() const { return data_ != MAP_FAILED; }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }

 private:
  void* data_;
};

// Eight places of the buffer in turn, each fetched ahead: one core then has more lines under way than its
// prefetcher asks for by itself (24 instead of 16 GB/s on a Zen 3).
constexpr std::size_t kStreams = 8, kAhead = 1024, kLine = 64;

/// Sums one word of each cache line of slice `i`: the line has to come, and its other words would only cost
/// loads.
std::uint64_t read_slice(const Buffer& buffer, std::size_t i) {
  std::uint64_t sum[kStreams] = {};
  const std::byte* start = buffer.data() + i * kChunk / kStreams;
  for (std::size_t byte = 0; byte < kChunk / kStreams; byte += kLine) {
    for (std::size_t s = 0; s < kStreams; ++s) {
      const std::byte* line = start + s * (kBytes / kStreams) + byte;
      __builtin_prefetch(line + kAhead);
      std::uint64_t word;
      std::memcpy(&word, line, sizeof word);
      sum[s] += word;
    }
  }
  return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

}  // namespace

Result<double> read_rate(double seconds) {
  const Buffer buffer;
  if (!buffer.there())
    return Status{Code::out_of_memory,
                  "\"read\" needs 256 MiB a thread, but the machine has not that much "
                  "free memory; measure on fewer threads"};
  std::vector<double> slices;
  std::uint64_t sum = 0;
  const auto start = Clock::now();
  do {
    for (std::size_t i = 0; i < kBytes / kChunk; ++i) {
      const auto before = Clock::now();
      sum += read_slice(buffer, i);
      slices.push_back(std::chrono::duration<double>(Clock::now() - before).count());
    }
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  asm volatile("" : : "r"(sum));  // note: an unused sum would not be computed
  const auto middle = slices.begin() + static_cast<std::ptrdiff_t>(slices.size() / 2);
  std::nth_element(slices.begin(), middle, slices.end());
  return 1e-9 * static_cast<double>(kChunk) / *middle;
}

}  // namespace octet::probe
