// The JSON header of a safetensors file: text to checked entries, and entries to text.
//
// The header is one JSON object that maps each tensor's name to {"dtype", "shape", "data_offsets"} and,
// optionally,
// "__metadata__" to an object of strings. Source: the format's section in the README of
// github.com/huggingface/safetensors. We are stricter than its library (0.8.0), which takes the last of
// duplicate keys and ignores unknown ones: a file that means something else to another reader is refused.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::tool {

/// The format's own limit on the header, in bytes.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// The name under which a header keeps its metadata; no tensor can have it.
inline constexpr std::string_view kMetadataKey = "__metadata__";

/// One tensor of a header, its claims checked: the shape is possible, and end - begin is what the shape and
/// dtype need.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;  ///< of the values in memory
  bool wide = false;         ///< the file holds 64-bit integers ("I64"), to be narrowed to s32
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes, counted from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry>
      entries;  ///< by begin, then end: they tile the data from its first byte to its last
  std::map<std::string, std::string> metadata;
};

/// Parses and checks a header. data_bytes: of the file after the header. `name` is the file's, ready for a
/// message. Errors: invalid_argument; unsupported for a dtype that octet does not have. Time is n log n in
/// the header's length, the stack does not grow with its nesting, and nothing is allocated for a claim.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                                   const std::string& name);

/// The header's text, padded with spaces so that the data starts at a multiple of 8. Entries in the order of
/// the data. Error: invalid_argument for a name or metadata that is not UTF-8, or a text beyond
/// kMaxSafetensorsHeader.
Result<std::string> safetensors_header_text(const SafetensorsHeader& header);

/// Where the library that defined the format puts a dtype in the data: wide types first, so that all are
/// aligned.
int safetensors_order(DType dtype);

}  // namespace octet::tool
