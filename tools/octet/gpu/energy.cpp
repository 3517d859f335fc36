#include "gpu/energy.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <chrono>

namespace octet::tool::gpu {
namespace {

// NVML's interface, as nvml.h declares it. Its functions keep their meaning from driver to driver.
using Return = int;  // 0: success
using Device = void*;
constexpr int kClockSm = 1;
struct Functions {
  Return (*init)() = nullptr;
  const char* (*error_text)(Return) = nullptr;
  Return (*driver_version)(char*, unsigned) = nullptr;
  Return (*device_by_bus_id)(const char*, Device*) = nullptr;
  Return (*energy)(Device, unsigned long long* millijoules) = nullptr;
  Return (*clock)(Device, int which, unsigned* mhz) = nullptr;
};

Status missing(const std::string& why) {
  return {Code::unsupported,
          fmt::format("NVML is not to be had ({}); energy, power and clock are left out", why)};
}

template <class Function>
bool find(void* library, const char* name, Function& to) {
  to = reinterpret_cast<Function>(dlsym(library, name));
  return to != nullptr;
}

Result<Functions> load() {
  // note: never closed; its threads may outlive a plan to do so.
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return missing("libnvidia-ml.so.1 cannot be opened");
  Functions f;
  const bool found = find(library, "nvmlInit_v2", f.init) && find(library, "nvmlErrorString", f.error_text) &&
                     find(library, "nvmlSystemGetDriverVersion", f.driver_version) &&
                     find(library, "nvmlDeviceGetHandleByPciBusId_v2", f.device_by_bus_id) &&
                     find(library, "nvmlDeviceGetTotalEnergyConsumption", f.energy) &&
                     find(library, "nvmlDeviceGetClockInfo", f.clock);
  if (!found) return missing("libnvidia-ml.so.1 lacks a function");
  return f;
}

}  // namespace

Result<Nvml> Nvml::open(const std::string& pci_bus_id) {
  Result<Functions> loaded = load();
  if (!loaded.ok()) return loaded.status();
  const Functions f = loaded.value();
  if (const Return r = f.init(); r != 0) return missing(f.error_text(r));
  Nvml nvml;
  std::array<char, 96> version{};
  if (f.driver_version(version.data(), version.size()) == 0) nvml.driver_ = version.data();
  Device device = nullptr;
  if (const Return r = f.device_by_bus_id(pci_bus_id.c_str(), &device); r != 0)
    return missing(f.error_text(r));
  nvml.counter_.joules = [f, device]() -> Result<double> {
    unsigned long long millijoules = 0;
    if (const Return r = f.energy(device, &millijoules); r != 0) return missing(f.error_text(r));
    return 1e-3 * static_cast<double>(millijoules);
  };
  nvml.counter_.clock_mhz = [f, device]() -> Result<double> {
    unsigned mhz = 0;
    if (const Return r = f.clock(device, kClockSm, &mhz); r != 0) return missing(f.error_text(r));
    return static_cast<double>(mhz);
  };
  if (Result<double> first = nvml.counter_.joules(); !first.ok()) return first.status();
  return nvml;
}

Result<Energy> measure_energy(const EnergyCounter& counter, const std::function<Status()>& burst, int calls,
                              double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  struct Mark {
    Clock::time_point time;
    double joules = 0;
    bool set = false;
  } first;
  const Clock::time_point begin = Clock::now();
  double last = 0, clocks = 0;
  long made = 0, samples = 0;
  for (bool started = false;; started = true) {
    if (Status s = burst(); !s.ok()) return s;
    Result<double> now = counter.joules();
    if (!now.ok()) return now.status();
    const bool stepped = started && now.value() != last;
    last = now.value();
    if (first.set) {
      made += calls;
      Result<double> clock = counter.clock_mhz();
      if (!clock.ok()) return clock.status();
      clocks += clock.value(), ++samples;
    }
    if (stepped && first.set && since(first.time) >= seconds) {
      const double joules = last - first.joules;
      return Energy{joules / static_cast<double>(made), joules / since(first.time),
                    clocks / static_cast<double>(samples)};
    }
    if (stepped && !first.set) first = {Clock::now(), last, true};
    constexpr double kPatience = 1;  // seconds beyond those that were asked for
    if (since(begin) > 2 * seconds + kPatience)
      return Status{Code::internal,
                    "NVML's energy counter stands still under load; its figures are left out"};
  }
}

}  // namespace octet::tool::gpu
