#include "core/sentence.h"

#include <cstdio>

namespace octet {

std::string text_of(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  return text;
}

std::string sentence(std::string_view argument, std::string_view value, std::string_view rule,
                     std::string_view remedy) {
  std::string text;
  for (const std::string_view part : {argument, std::string_view(" is "), value, std::string_view(", but "),
                                      rule, std::string_view("; "), remedy})
    text += part;
  return text;
}

}  // namespace octet
