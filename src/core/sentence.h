// The one shape of every error: argument, value, rule, remedy.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "octet/status.hpp"

namespace octet {

/// What an argument is, as text.
inline std::string text_of(std::string_view value) { return std::string(value); }
std::string text_of(float value);  ///< 9 digits tell every float apart
template <class Number>
requires std::is_integral_v<Number> std::string text_of(Number value) { return std::to_string(value); }

/// "<argument> is <value>, but <rule>; <remedy>". note: not inline, or joining texts is most of the code of
/// every file that validates.
std::string sentence(std::string_view argument, std::string_view value, std::string_view rule,
                     std::string_view remedy);

/// The argument breaks a rule that holds for every scheme.
template <class Value>
Status broken(std::string_view argument, const Value& value, std::string_view rule, std::string_view remedy) {
  return invalid_argument(sentence(argument, text_of(value), rule, remedy));
}

/// The argument asks for what this scheme or backend does not offer.
template <class Value>
Status refused(std::string_view argument, const Value& value, std::string_view rule,
               std::string_view remedy) {
  return unsupported(sentence(argument, text_of(value), rule, remedy));
}

}  // namespace octet
