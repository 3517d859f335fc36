#include "common/recipe_text.h"

#include <cassert>
#include <charconv>

#include "common/sentence.h"
#include "common/text.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

std::string names_of(octet_enum which) {
  std::string names;
  for (std::int32_t i = 0; i < octet_enum_count(which); ++i)
    names += (names.empty() ? "" : ", ") + std::string(octet_enum_name(which, i));
  return names;
}

/// Sets `to` to the value called `name`.
template <class Enum>
Status set_by_name(std::string_view argument, octet_enum which, const std::string& name, Enum& to) {
  std::int32_t value = 0;
  if (octet_enum_value(which, name.c_str(), &value) == OCTET_OK) {
    to = static_cast<Enum>(value);
    return {};
  }
  return broken(argument, in_quotes(name), "there is no such choice", "choose one of " + names_of(which));
}

Status set_seed(const std::string& text, std::uint64_t& seed) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seed);
  if (error == std::errc() && stop == end) return {};
  return broken("recipe rotation_seed", in_quotes(text), "it must be an unsigned 64-bit integer",
                "pass one such as 1");
}

Status set_recipe(const std::string& key, const std::string& value, Recipe& recipe) {
  const std::string argument = "recipe " + key;
  if (key == "q") return set_by_name(argument, OCTET_ENUM_GRANULARITY, value, recipe.q);
  if (key == "k") return set_by_name(argument, OCTET_ENUM_GRANULARITY, value, recipe.k);
  if (key == "v") return set_by_name(argument, OCTET_ENUM_GRANULARITY, value, recipe.v);
  if (key == "smooth") return set_by_name(argument, OCTET_ENUM_SMOOTH, value, recipe.smooth);
  if (key == "rotate") return set_by_name(argument, OCTET_ENUM_ROTATE, value, recipe.rotate);
  if (key == "equalise") return set_by_name(argument, OCTET_ENUM_EQUALISE, value, recipe.equalise);
  if (key == "rotation_seed") return set_seed(value, recipe.rotation_seed);
  return broken("a setting of --recipe", in_quotes(key), "a recipe has no such setting",
                "choose from q, k, v, smooth, rotate, equalise, rotation_seed");
}

Status set_option(const std::string& key, const std::string& value, SchemeOptions& options) {
  const std::string argument = "option " + key;
  if (key == "row_sum") return set_by_name(argument, OCTET_ENUM_ROW_SUM, value, options.row_sum);
  if (key == "table") return set_by_name(argument, OCTET_ENUM_TABLE, value, options.table);
  if (key == "quotient") return set_by_name(argument, OCTET_ENUM_QUOTIENT, value, options.quotient);
  if (key == "rescale") return set_by_name(argument, OCTET_ENUM_RESCALE, value, options.rescale);
  if (key == "table_bits") {
    Result<std::int64_t> bits = parse_integer(argument, value, {3, 16});  // octet_scheme_options.table_bits
    if (bits.ok()) options.table_bits = static_cast<std::int32_t>(bits.value());
    return bits.status();
  }
  return broken("a setting of --option", in_quotes(key), "no scheme has such an option",
                "choose from row_sum, table, table_bits, quotient, rescale");
}

/// "a=b,c=d" of the entries that are not null.
std::string settings_text(const Json& settings) {
  std::string text;
  for (const auto& [key, value] : settings.items()) {
    if (value.is_null()) continue;
    text +=
        (text.empty() ? "" : ",") + key + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

/// The name of a value where `there`, else null.
template <class Enum>
Json name_where(bool there, octet_enum which, Enum value) {
  if (!there) return nullptr;
  return enum_name(which, static_cast<std::int32_t>(value));
}

}  // namespace

Result<Scheme> parse_scheme(std::string_view name) {
  Scheme scheme{};
  if (Status s = set_by_name("--scheme", OCTET_ENUM_SCHEME, std::string(name), scheme); !s.ok()) return s;
  return scheme;
}

octet_scheme_info info_of(Scheme scheme) {
  octet_scheme_info info{};
  info.struct_size = sizeof info;
  [[maybe_unused]] const octet_status status =
      octet_scheme_describe(static_cast<octet_scheme>(scheme), &info);
  assert(status == OCTET_OK && "schemes come from parse_scheme or from 0 ... octet_scheme_count() - 1");
  return info;
}

Result<Recipe> parse_recipe(std::string_view text, Recipe start) {
  Result<std::vector<std::pair<std::string, std::string>>> settings = parse_settings("--recipe", text);
  if (!settings.ok()) return settings.status();
  for (const auto& [key, value] : settings.value()) {
    if (Status s = set_recipe(key, value, start); !s.ok()) return s;
  }
  return start;
}

Result<SchemeOptions> parse_scheme_options(std::string_view text) {
  SchemeOptions options;
  Result<std::vector<std::pair<std::string, std::string>>> settings = parse_settings("--option", text);
  if (!settings.ok()) return settings.status();
  for (const auto& [key, value] : settings.value()) {
    if (Status s = set_option(key, value, options); !s.ok()) return s;
  }
  return options;
}

Json recipe_json(Scheme scheme, const Recipe& recipe) {
  const octet_scheme_info info = info_of(scheme);
  const bool rotates = info.rotates != 0;
  Json json;
  json["q"] = name_where(info.q_granularities != 0, OCTET_ENUM_GRANULARITY, recipe.q);
  json["k"] = name_where(info.k_granularities != 0, OCTET_ENUM_GRANULARITY, recipe.k);
  json["v"] = name_where(info.v_granularities != 0, OCTET_ENUM_GRANULARITY, recipe.v);
  json["smooth"] = name_where(info.smooths != 0, OCTET_ENUM_SMOOTH, recipe.smooth);
  json["rotate"] = name_where(rotates, OCTET_ENUM_ROTATE, recipe.rotate);
  json["equalise"] = name_where(info.equalises != 0, OCTET_ENUM_EQUALISE, recipe.equalise);
  const bool seeded =
      rotates && recipe.rotate == Rotate::on && recipe.rotation_seed != Recipe{}.rotation_seed;
  if (seeded) json["rotation_seed"] = recipe.rotation_seed;
  return json;
}

Json scheme_options_json(Scheme scheme, const SchemeOptions& options) {
  const octet_scheme_info info = info_of(scheme);
  Json json;
  json["row_sum"] = name_where(info.has_row_sum != 0, OCTET_ENUM_ROW_SUM, options.row_sum);
  json["table"] = name_where(info.has_table != 0, OCTET_ENUM_TABLE, options.table);
  json["table_bits"] = info.has_table != 0 ? Json(options.table_bits) : Json(nullptr);
  json["quotient"] = name_where(info.has_quotient != 0, OCTET_ENUM_QUOTIENT, options.quotient);
  json["rescale"] = name_where(info.has_rescale != 0, OCTET_ENUM_RESCALE, options.rescale);
  return json;
}

std::string recipe_text(Scheme scheme, const Recipe& recipe) {
  const std::string text = settings_text(recipe_json(scheme, recipe));
  return text.empty() ? "none" : text;
}

std::string scheme_options_text(Scheme scheme, const SchemeOptions& options) {
  return settings_text(scheme_options_json(scheme, options));
}

}  // namespace octet::tool
