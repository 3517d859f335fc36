// The file of one part of the suite: what was measured, by which command and commit, when and on what.
#pragma once
#include <string>
#include <vector>

#include "common/command.h"

namespace octet::tool {

/// What a part's file says beside its experiments and the machine.
struct PartSource {
  std::string name;        ///< of the part
  std::string command;     ///< that measures it again
  std::string commit;      ///< of the sources that measured it
  double cpu_seconds = 0;  ///< that measuring took
};

/// Seconds that all threads of this process have computed so far.
double cpu_seconds();

/// {part, command, version, commit, date, cpu, processors, cpu_seconds, experiments}; the date is today's.
Json part_json(const PartSource& source, std::vector<Json> experiments);

}  // namespace octet::tool
