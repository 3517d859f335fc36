#include "accuracy/part.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <utility>

#include "common/machine.h"
#include "octet/octet.hpp"

namespace octet::tool {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

}  // namespace

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Json part_json(const PartSource& source, std::vector<Json> experiments) {
  const Machine machine = this_machine();
  Json json;
  json["part"] = source.name, json["command"] = source.command;
  json["version"] = octet_version(), json["commit"] = source.commit, json["date"] = today();
  json["cpu"] = machine.cpu, json["processors"] = machine.processors;
  json["cpu_seconds"] = std::round(source.cpu_seconds);
  json["experiments"] = std::move(experiments);
  return json;
}

}  // namespace octet::tool
