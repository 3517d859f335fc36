// The shape of every error message of the library.
#pragma once
#include <string_view>

namespace octet::testing {

/// Whether `text` is one line "<argument> is <value>, but <rule>; <remedy>".
bool is_sentence(std::string_view text);

}  // namespace octet::testing
