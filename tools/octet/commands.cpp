#include "commands.h"

namespace octet::tool {

void add_commands(CommandLine& line) {
  add_info(line);
  add_explain(line);
  add_attend(line);
  add_quantize(line);
  add_accuracy(line);
  add_bench(line);
}

}  // namespace octet::tool
