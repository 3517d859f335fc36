#include "common/sentence.h"

#include <fmt/format.h>

namespace octet::tool {

Status broken(std::string_view argument, std::string_view value, std::string_view rule,
              std::string_view remedy) {
  return invalid_argument(fmt::format("{} is {}, but {}; {}", argument, value, rule, remedy));
}

}  // namespace octet::tool
