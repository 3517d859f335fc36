// Every command of the tool, one file each.
#pragma once
#include "common/command.h"

namespace octet::tool {

void add_info(CommandLine& line);
void add_explain(CommandLine& line);
void add_attend(CommandLine& line);
void add_quantize(CommandLine& line);
void add_accuracy(CommandLine& line);
void add_bench(CommandLine& line);

/// All of them, in the order in which --help lists them.
void add_commands(CommandLine& line);

}  // namespace octet::tool
