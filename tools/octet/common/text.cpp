#include "common/text.h"

#include <algorithm>
#include <charconv>

#include "common/sentence.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

template <class Number>
bool parses(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

}  // namespace

Result<std::int64_t> parse_integer(std::string_view argument, std::string_view text, IntegerRange range) {
  std::int64_t value = 0;
  if (parses(text, value) && value >= range.low && value <= range.high) return value;
  const bool open = range.high == std::numeric_limits<std::int64_t>::max();
  return broken(argument, in_quotes(text),
                open ? fmt::format("it must be an integer of {} or more", range.low)
                     : fmt::format("it must be an integer in {} to {}", range.low, range.high),
                "pass one in that range");
}

Result<float> parse_real(std::string_view argument, std::string_view text) {
  float value = 0;
  if (parses(text, value)) return value;
  return broken(argument, in_quotes(text), "it must be a number that a float holds",
                "pass one such as 0.125");
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
    if (text.empty()) parts.emplace_back();  // "a," has a second, empty part
  }
  return parts;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_settings(std::string_view argument,
                                                                        std::string_view text) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const std::string& part : split(text, ',')) {
    const std::size_t at = part.find('=');
    if (at == std::string::npos) {
      return broken(fmt::format("a part of {}", argument), in_quotes(part),
                    "it must have the form name=value", "separate settings by commas, without spaces");
    }
    std::string key = part.substr(0, at);
    if (std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.first == key; })) {
      return broken(fmt::format("the setting {} of {}", in_quotes(key), argument), "given twice",
                    "each may be given once", "drop one of them");
    }
    settings.emplace_back(std::move(key), part.substr(at + 1));
  }
  return settings;
}

}  // namespace octet::tool
