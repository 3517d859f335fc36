// octet_peak_rate.
#include <cmath>
#include <string>
#include <string_view>

#include "base/try.h"
#include "capi/guard.h"
#include "probe/probe.h"

namespace {

using namespace octet;

constexpr std::string_view kRead = "read";

std::string names() {
  std::string all(kRead);
  for (const probe::Instruction& i : probe::instructions()) all += ", " + std::string(i.name);
  return all;
}

Result<double> peak_rate(std::string_view what, double seconds) {
  constexpr double kMost = 60;  // a minute of one instruction tells no more than a second
  if (!(seconds >= 0 && seconds <= kMost))
    return broken("seconds", seconds, "it must be 0 to 60",
                  "0.02 is enough for an instruction, 0.5 for \"read\"");
  if (what == kRead) return probe::read_rate(seconds);
  for (const probe::Instruction& i : probe::instructions()) {
    if (what != i.name) continue;
    if (i.present()) return probe::operations_rate(i, seconds);
    return Status{Code::unsupported,
                  "what is \"" + std::string(what) +
                      "\", but this processor has no such instruction; measure another one"};
  }
  return broken("what", "\"" + std::string(what) + "\"", "there is nothing of this name to measure",
                "choose one of " + names());
}

}  // namespace

octet_status octet_peak_rate(const char* what, double seconds, double* giga_per_second) {
  return capi::guarded([&]() -> Status {
    OCTET_TRY(capi::not_null("what", what));
    OCTET_TRY(capi::not_null("giga_per_second", giga_per_second));
    Result<double> rate = peak_rate(what, seconds);
    if (!rate.ok()) return rate.status();
    *giga_per_second = rate.value();
    return {};
  });
}
