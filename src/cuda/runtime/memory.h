// Device memory that the library holds by itself: of caches alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "octet/status.hpp"

namespace octet::cuda::runtime {

struct Free {
  void operator()(std::byte* data) const;
};

/// Memory of the device that was current when it was made, aligned to 256. Whoever gives it back has waited
/// for what was queued on it.
using Memory = std::unique_ptr<std::byte, Free>;

/// Zeros. Waits for the device. out_of_memory where the device has too little; what: it is for.
Result<Memory> take(std::int64_t bytes, const char* what);

/// Waits for the default stream.
Status wait();

}  // namespace octet::cuda::runtime
