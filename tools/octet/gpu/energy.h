// What a GPU has drawn, by NVML's counter of its total energy, and its clock. The driver's library is opened
// when it is needed, so that nothing links to it.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "octet/status.hpp"

namespace octet::tool::gpu {

/// Where readings come from: NVML, or a test.
struct EnergyCounter {
  std::function<Result<double>()> joules;     ///< since some time in the past; advances in steps
  std::function<Result<double>()> clock_mhz;  ///< of the processors, now
};

/// NVML's view of one device.
class Nvml {
 public:
  /// The device at this PCI address. unsupported, with the reason: no NVML here, or a device without the
  /// counter.
  static Result<Nvml> open(const std::string& pci_bus_id);
  const std::string& driver() const { return driver_; }  ///< "580.159.04"
  const EnergyCounter& counter() const { return counter_; }

 private:
  std::string driver_;
  EnergyCounter counter_;
};

struct Energy {
  double joules_per_call = 0, mean_power_w = 0, mean_clock_mhz = 0;
};

/// Runs `burst`, which makes `calls` calls and waits for them, for `seconds` and more between two steps of
/// the counter: steps come every 20 to 100 ms, and what lies between two is exact. Error (internal): the
/// counter stands still.
Result<Energy> measure_energy(const EnergyCounter& counter, const std::function<Status()>& burst, int calls,
                              double seconds);

}  // namespace octet::tool::gpu
