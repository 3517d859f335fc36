// Names of every enumeration's values: what messages, the C interface and the command line spell.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/schemes.h"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet {

/// Which enumeration. The numbers are octet_enum in octet.h.
enum class EnumKind : std::int32_t {
  status = 0,
  dtype,
  device,
  scheme,
  granularity,
  smooth,
  rotate,
  equalise,
  mask,
  bias,
  row_sum,
  table,
  quotient,
  rescale,
  output_codes,
  scale_rule,
};

/// Names of the values 0, 1, ...; each ends in NUL. Empty for an unknown kind.
std::span<const char* const> names_of(EnumKind kind);

/// Name of a value; "unknown (17)" outside the range, so that it can stand in a message.
std::string name_of(EnumKind kind, std::int32_t value);
bool is_valid(EnumKind kind, std::int32_t value);

/// Value of a name; the message lists the names that there are.
Result<std::int32_t> value_of(EnumKind kind, std::string_view name);

/// What the enumeration is called where a value of it is an argument: "granularity", "row_sum".
std::string_view argument_of(EnumKind kind);

inline std::string name_of(DType x) { return name_of(EnumKind::dtype, static_cast<int>(x)); }
inline std::string name_of(Device x) { return name_of(EnumKind::device, static_cast<int>(x)); }
inline std::string name_of(Scheme x) { return name_of(EnumKind::scheme, static_cast<int>(x)); }
inline std::string name_of(Granularity x) { return name_of(EnumKind::granularity, static_cast<int>(x)); }
inline std::string name_of(Smooth x) { return name_of(EnumKind::smooth, static_cast<int>(x)); }
inline std::string name_of(Rotate x) { return name_of(EnumKind::rotate, static_cast<int>(x)); }
inline std::string name_of(Equalise x) { return name_of(EnumKind::equalise, static_cast<int>(x)); }
inline std::string name_of(Mask x) { return name_of(EnumKind::mask, static_cast<int>(x)); }
inline std::string name_of(AttentionDesc::Bias x) { return name_of(EnumKind::bias, static_cast<int>(x)); }

}  // namespace octet
