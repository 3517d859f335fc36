// The one shape of every error of the tool: argument, value, rule, remedy.
#pragma once
#include <concepts>
#include <string>
#include <string_view>

#include "octet/status.hpp"

namespace octet::tool {

/// "<argument> is <value>, but <rule>; <remedy>", as the library says it.
Status broken(std::string_view argument, std::string_view value, std::string_view rule,
              std::string_view remedy);

template <std::integral Number>
Status broken(std::string_view argument, Number value, std::string_view rule, std::string_view remedy) {
  return broken(argument, std::string_view(std::to_string(value)), rule, remedy);
}

}  // namespace octet::tool
