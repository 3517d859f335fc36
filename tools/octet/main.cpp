// The command line: parses, runs one command, turns its status into a sentence and an exit code.
#include <fmt/format.h>

#include <exception>
#include <new>
#include <string_view>

#include "commands.h"
#include "octet/octet.h"

namespace octet::tool {
namespace {

enum ExitCode : int { kOk = 0, kInternal = 1, kBadInput = 2 };

int fail(ExitCode code, std::string_view sentence) {
  fmt::print(stderr, "octet: {}\n", sentence);
  return code;
}

int run(int argc, char** argv) {
  CommandLine line("8-bit fused attention that can be trusted.", octet_version());
  add_commands(line);
  const Result<Action> action = line.parse(argc, argv);
  if (!action.ok()) return fail(kBadInput, action.status().message());
  const Status status = action.value()();
  if (status.ok()) return kOk;
  return fail(status.code() == Code::internal ? kInternal : kBadInput, status.message());
}

}  // namespace
}  // namespace octet::tool

int main(int argc, char** argv) {
  using namespace octet::tool;
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail(kBadInput,
                "the input is larger than free memory, but all of it is held there; pass fewer heads "
                "or batch entries at a time");
  } catch (const std::exception& error) {
    return fail(kInternal,
                fmt::format("octet made a mistake of its own ({}); please report it", error.what()));
  }
}
