// What speeds are shares of: the peak of one instruction, and the bandwidth of memory, on one thread or all.
#pragma once
#include <string>

#include "common/command.h"
#include "octet/types.hpp"

namespace octet::tool {

struct Peak {
  std::string instruction;  ///< as octet_peak_rate names it; empty: the machine has none for the scheme
  double gops = 0;
};

/// The peak, on `threads` threads at once, of the fastest instruction for the scheme's products that the
/// kernel's instruction set has: "avx2", say, is the backend's name. A backend that names none (reference) is
/// held against all that the machine has but AMX, whose rate only a kernel for it can approach.
Peak peak_of(Scheme scheme, const std::string& backend, int threads);

/// The same instruction's rate once more, in a third of the time.
double peak_again(const Peak& peak, int threads);

/// GB/s that `threads` threads read from memory, in a tenth of the time that all_peaks() takes for it.
double read_bandwidth(int threads);

/// Every instruction's rate, and the bandwidth, on one thread and on all: rows {"what", "threads", "giga"}.
Json all_peaks(int threads);

}  // namespace octet::tool
