// Option texts to numbers and lists, with errors in the tool's one shape.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "octet/status.hpp"

namespace octet::tool {

struct IntegerRange {
  std::int64_t low = 0, high = std::numeric_limits<std::int64_t>::max();
};

/// A decimal integer in the range; `argument` names it in the error.
Result<std::int64_t> parse_integer(std::string_view argument, std::string_view text, IntegerRange range);

/// A decimal number that an f32 holds. NaN and infinities pass: the library says what it takes.
Result<float> parse_real(std::string_view argument, std::string_view text);

/// "a,b" as {"a", "b"}; empty text gives no parts.
std::vector<std::string> split(std::string_view text, char separator);

/// "key=value,key=value" as pairs, in order. Errors: a part without "=", or a key twice.
Result<std::vector<std::pair<std::string, std::string>>> parse_settings(std::string_view argument,
                                                                        std::string_view text);

}  // namespace octet::tool
