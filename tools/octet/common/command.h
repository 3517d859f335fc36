// What every command of the tool has: arguments, an action, and two ways to print.
//
// A command is one file with one function `void add_<name>(CommandLine& line)`: it adds a command whose
// action owns a struct of options, and binds the arguments to them; main runs it.
#pragma once
#include <string_view>

#include "common/command_line.h"
#include "json/json.h"
#include "octet/status.hpp"

namespace octet::tool {

/// Adds `--json` and binds it.
void add_json_option(Arguments& command, bool& json);

/// Writes text to standard output. Error (io): it cannot be written, as on a full disk.
Status print(std::string_view text);

/// Writes one document to standard output. NaN and infinities become null: JSON has none.
Status print_json(const Json& document);

}  // namespace octet::tool
