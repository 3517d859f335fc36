// Recipes and scheme options as text: "q=token,k=block,rotate=on", "table=linear,table_bits=8".
#pragma once
#include <string>
#include <string_view>

#include "common/command.h"
#include "octet/octet.hpp"

namespace octet::tool {

/// The scheme of a name. The error lists all names.
Result<Scheme> parse_scheme(std::string_view name);

/// What octet_scheme_describe says of a scheme.
octet_scheme_info info_of(Scheme scheme);

/// `text` laid over `start`: q, k and v (granularities), smooth, rotate, equalise and rotation_seed, each at
/// most once. Names are checked here, and the scheme's own limits by the plan. Errors list the names that
/// there are.
Result<Recipe> parse_recipe(std::string_view text, Recipe start);

/// The same for row_sum, table, table_bits, quotient and rescale.
Result<SchemeOptions> parse_scheme_options(std::string_view text);

/// What parse_recipe reads, of the settings that the scheme has: "q=token,k=token,v=token,smooth=mean,
/// rotate=on,equalise=on"; "none" for a scheme without codes.
std::string recipe_text(Scheme scheme, const Recipe& recipe);

/// What parse_scheme_options reads, of the choices that the scheme has; empty where it has none.
std::string scheme_options_text(Scheme scheme, const SchemeOptions& options);

/// The same as JSON objects, null for a setting that the scheme does not have.
Json recipe_json(Scheme scheme, const Recipe& recipe);
Json scheme_options_json(Scheme scheme, const SchemeOptions& options);

}  // namespace octet::tool
