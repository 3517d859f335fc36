// The machine that this runs on, as its operating system describes it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace octet::tool {

struct Machine {
  std::string cpu;            ///< model name; "unknown" where the system does not say
  int family = 0, model = 0;  ///< as x86 counts them: virtual machines tell no more of the model's name
  std::string architecture;   ///< "x86_64", "aarch64", ...
  std::vector<std::string> features;  ///< of those that attention kernels can use, as the system spells them
  int processors = 1;                 ///< that this process may use
  std::int64_t memory_bytes = 0;      ///< physical
};

Machine this_machine();

}  // namespace octet::tool
