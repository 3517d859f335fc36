#include "common/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>

#include "common/threads.h"

namespace octet::tool {
namespace {

/// In the kernel's spelling, x86 first, then Arm.
constexpr std::array<std::string_view, 23> kFeatures{
    "sse4_1",      "avx",      "f16c",     "fma",         "avx2",        "avx_vnni",
    "avx512f",     "avx512bw", "avx512vl", "avx512_vnni", "avx512_vbmi", "avx512_bf16",
    "avx512_fp16", "amx_int8", "amx_bf16", "amx_tile",    "asimd",       "asimdhp",
    "asimddp",     "i8mm",     "bf16",     "sve",         "sve2"};

/// The value after "key :" of /proc/cpuinfo's first line of that key.
std::string value_of_line(const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return {};
  const std::size_t start = line.find_first_not_of(" \t", colon + 1);
  return start == std::string::npos ? std::string() : line.substr(start);
}

void read_cpuinfo(Machine& machine) {
  std::ifstream file("/proc/cpuinfo");
  std::vector<std::string> known;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && machine.cpu.empty()) machine.cpu = value_of_line(line);
    if (line.starts_with("cpu family") && machine.family == 0)
      machine.family = std::atoi(value_of_line(line).c_str());
    if (line.starts_with("model\t") && machine.model == 0)
      machine.model = std::atoi(value_of_line(line).c_str());
    const bool lists_features = line.starts_with("flags") || line.starts_with("Features");
    if (!lists_features || !known.empty()) continue;
    std::istringstream words(value_of_line(line));
    for (std::string word; words >> word;) known.push_back(word);
  }
  for (std::string_view feature : kFeatures) {
    if (std::find(known.begin(), known.end(), feature) != known.end()) machine.features.emplace_back(feature);
  }
}

}  // namespace

Machine this_machine() {
  Machine machine;
  read_cpuinfo(machine);
  if (machine.cpu.empty()) machine.cpu = "unknown";
  utsname system{};
  if (uname(&system) == 0) machine.architecture = system.machine;
  machine.processors = available_processors();
  machine.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  return machine;
}

}  // namespace octet::tool
