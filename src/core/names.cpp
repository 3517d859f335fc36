#include "core/names.h"

#include <array>

#include "core/sentence.h"
#include "octet/dtype.hpp"

namespace octet {
namespace {

struct Names {
  std::string_view argument;
  std::span<const char* const> values;
};

constexpr const char* kStatus[] = {"ok", "invalid_argument", "unsupported", "non_finite", "out_of_memory",
                                   "io", "internal"};
constexpr const char* kDevice[] = {"cpu", "cuda"};
constexpr const char* kGranularity[] = {"tensor", "head", "block", "token", "channel", "block_channel"};
constexpr const char* kSmooth[] = {"none", "mean", "anchor"};
constexpr const char* kSwitch[] = {"off", "on"};
constexpr const char* kMask[] = {"none", "causal"};
constexpr const char* kBias[] = {"none", "boolean", "additive"};
constexpr const char* kRowSum[] = {"weights", "codes"};
constexpr const char* kTable[] = {"direct", "linear", "range"};
constexpr const char* kQuotient[] = {"multiply_shift", "divide"};
constexpr const char* kRescale[] = {"release", "accumulate"};
constexpr const char* kOutputCodes[] = {"none", "one_scale", "row_scale"};
constexpr const char* kScaleRule[] = {"nearest", "power_of_two", "sixteenths"};

/// The scheme table's names as C strings: they are string literals, so each ends in NUL.
const std::array<const char*, kSchemes>& scheme_names() {
  static const std::array<const char*, kSchemes> names = [] {
    std::array<const char*, kSchemes> all{};
    for (const SchemeInfo& info : all_schemes())
      all[static_cast<std::size_t>(info.scheme)] = info.name.data();
    return all;
  }();
  return names;
}

Names table_of(EnumKind kind) {
  switch (kind) {
    case EnumKind::status:
      return {"status", kStatus};
    case EnumKind::dtype:
      return {"dtype", kDTypeNames};
    case EnumKind::device:
      return {"device", kDevice};
    case EnumKind::scheme:
      return {"scheme", scheme_names()};
    case EnumKind::granularity:
      return {"granularity", kGranularity};
    case EnumKind::smooth:
      return {"smooth", kSmooth};
    case EnumKind::rotate:
      return {"rotate", kSwitch};
    case EnumKind::equalise:
      return {"equalise", kSwitch};
    case EnumKind::mask:
      return {"mask", kMask};
    case EnumKind::bias:
      return {"bias", kBias};
    case EnumKind::row_sum:
      return {"row_sum", kRowSum};
    case EnumKind::table:
      return {"table", kTable};
    case EnumKind::quotient:
      return {"quotient", kQuotient};
    case EnumKind::rescale:
      return {"rescale", kRescale};
    case EnumKind::output_codes:
      return {"output_codes", kOutputCodes};
    case EnumKind::scale_rule:
      return {"scale_rule", kScaleRule};
  }
  return {};
}

std::string listed(std::span<const char* const> names) {
  std::string all;
  for (const char* name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

}  // namespace

std::span<const char* const> names_of(EnumKind kind) { return table_of(kind).values; }
std::string_view argument_of(EnumKind kind) { return table_of(kind).argument; }

bool is_valid(EnumKind kind, std::int32_t value) {
  return value >= 0 && static_cast<std::size_t>(value) < names_of(kind).size();
}

std::string name_of(EnumKind kind, std::int32_t value) {
  if (is_valid(kind, value)) return names_of(kind)[static_cast<std::size_t>(value)];
  return "unknown (" + std::to_string(value) + ")";
}

Result<std::int32_t> value_of(EnumKind kind, std::string_view name) {
  const Names names = table_of(kind);
  for (std::size_t i = 0; i < names.values.size(); ++i) {
    if (names.values[i] == name) return static_cast<std::int32_t>(i);
  }
  return broken(names.argument, "\"" + std::string(name) + "\"",
                "there is no " + std::string(names.argument) + " of this name",
                "choose one of " + listed(names.values));
}

}  // namespace octet
