#include "common/command.h"

#include <cstdio>

namespace octet::tool {

void add_json_option(Arguments& command, bool& json) {
  command.flag("--json", json, "Print one JSON document on standard output");
}

Status print(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written) return {};
  return {Code::io, "standard output is closed or full, but the result goes there; redirect it elsewhere"};
}

Status print_json(const Json& document) {
  constexpr int kIndent = 2;
  return print(document.dump(kIndent) + "\n");
}

}  // namespace octet::tool
