#include "bench/peaks.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "octet/octet.hpp"

namespace octet::tool {
namespace {

constexpr double kInstructionSeconds = 0.003, kReadSeconds = 0.4;
constexpr const char* kInstructions[] = {"tdpbusd",      "tdpbf16ps",    "vpdpbusd_zmm",
                                         "vpdpbusd_ymm", "vpmaddwd_ymm", "vdpbf16ps_zmm",
                                         "fma_f16_zmm",  "fma_f32_zmm",  "fma_f32_ymm"};

/// Summed over threads that measure at the same time; 0 where the machine does not have it.
double rate_of(const std::string& what, int threads, double seconds) {
  if (threads == 1) {
    const Result<double> rate = peak_rate(what, seconds);
    return rate.ok() ? rate.value() : 0;
  }
  std::vector<double> rates(static_cast<std::size_t>(threads), 0);
  {
    std::vector<std::jthread> all;
    for (double& rate : rates) {
      all.emplace_back([&] {
        if (const Result<double> measured = peak_rate(what, seconds); measured.ok()) rate = measured.value();
      });
    }
  }
  double sum = 0;
  for (double rate : rates) sum += rate;
  return sum;
}

bool names(const std::string& backend, const char* part) { return backend.find(part) != std::string::npos; }

/// Instructions that a kernel of this scheme and instruction set may use.
std::vector<std::string> candidates(Scheme scheme, const std::string& backend) {
  const bool narrow = names(backend, "avx2") || names(backend, "avx_vnni");
  const std::string fma = narrow ? "fma_f32_ymm" : "fma_f32_zmm";
  std::vector<std::string> list;
  switch (scheme) {
    case Scheme::f32:
      list = {fma};
      break;
    case Scheme::f16:
      list = narrow ? std::vector{fma} : std::vector<std::string>{"fma_f16_zmm", fma};
      break;
    case Scheme::bf16:
      if (names(backend, "amx")) return {"tdpbf16ps"};
      list = narrow ? std::vector{fma} : std::vector<std::string>{"vdpbf16ps_zmm", fma};
      break;
    default:
      if (names(backend, "amx")) return {"tdpbusd"};
      if (names(backend, "avx2")) return {"vpmaddwd_ymm"};
      if (names(backend, "avx_vnni")) return {"vpdpbusd_ymm"};
      return {"vpdpbusd_zmm", "vpdpbusd_ymm", "vpmaddwd_ymm"};
  }
  if (!narrow) list.push_back("fma_f32_ymm");
  return list;
}

}  // namespace

Peak peak_of(Scheme scheme, const std::string& backend, int threads) {
  static std::set<std::string> missing;  // asked once: a refusal is cheap, but not free
  Peak best;
  for (const std::string& instruction : candidates(scheme, backend)) {
    if (missing.contains(instruction)) continue;
    const double gops = rate_of(instruction, threads, kInstructionSeconds);
    if (gops == 0) missing.insert(instruction);
    if (gops > best.gops) best = {instruction, gops};
  }
  return best;
}

double peak_again(const Peak& peak, int threads) {
  return rate_of(peak.instruction, threads, kInstructionSeconds / 3);
}

double read_bandwidth(int threads) { return rate_of("read", threads, kReadSeconds / 10); }

Json all_peaks(int threads) {
  Json rows = Json::array();
  for (int count : std::set<int>{1, threads}) {
    for (const char* instruction : kInstructions) {
      constexpr double kSeconds = 0.05;
      if (const double rate = rate_of(instruction, count, kSeconds); rate > 0)
        rows.push_back({{"what", instruction}, {"threads", count}, {"giga", rate}});
    }
    rows.push_back({{"what", "read"}, {"threads", count}, {"giga", rate_of("read", count, kReadSeconds)}});
  }
  return rows;
}

}  // namespace octet::tool
