#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <set>
#include <utility>

#include "io/host_tensor.h"
#include "json/events.h"

namespace octet::tool {
namespace {

struct NamedType {
  std::string_view name;
  DType dtype;
  bool wide;
};

/// In the order of the data (safetensors_order), which is the library's: descending alignment first of all.
constexpr std::array<NamedType, 11> kTypes{{{"I64", DType::s32, true},
                                            {"F64", DType::f64, false},
                                            {"F32", DType::f32, false},
                                            {"I32", DType::s32, false},
                                            {"BF16", DType::bf16, false},
                                            {"F16", DType::f16, false},
                                            {"F8_E4M3", DType::e4m3, false},
                                            {"F8_E5M2", DType::e5m2, false},
                                            {"I8", DType::s8, false},
                                            {"U8", DType::u8, false},
                                            {"BOOL", DType::boolean, false}}};

std::string type_names() {
  std::string names;
  for (const NamedType& type : kTypes) names.append(names.empty() ? "" : ", ").append(type.name);
  return names;
}

/// One tensor's object as the text has it.
struct RawEntry {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<std::vector<std::uint64_t>> shape, offsets;
};

/// Follows the parser's events through the three levels that a header has and stops it at the first one that
/// does not belong: depth is bounded by the states, not by the input.
class HeaderEvents final : public JsonEvents {
 public:
  explicit HeaderEvents(const std::string& file) : file_(file) {}

  bool null() override { return misplaced("null"); }
  bool boolean(bool) override { return misplaced("a boolean"); }
  bool integer(std::int64_t value) override { return misplaced(std::to_string(value)); }
  bool real(double, const std::string& text) override { return misplaced(in_quotes(text)); }

  bool natural(std::uint64_t value) override {
    if (place_ != Place::list) return misplaced(std::to_string(value));
    std::vector<std::uint64_t>& list = *(key_ == "shape" ? entries.back().shape : entries.back().offsets);
    if (list.size() == kMaxRank) {
      return fail(" has a " + key_ + " of more than " + std::to_string(kMaxRank) +
                  " numbers, but no tensor has so many dimensions; write it with fewer");
    }
    list.push_back(value);
    return true;
  }

  bool string(std::string value) override {
    if (place_ == Place::metadata) {
      metadata[key_] = std::move(value);
      return true;
    }
    if (place_ != Place::entry || key_ != "dtype") return misplaced("the string " + in_quotes(value));
    entries.back().dtype = std::move(value);
    return true;
  }

  bool start_object() override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top && key_ == kMetadataKey) {
      place_ = Place::metadata;
    } else if (place_ == Place::top) {
      entries.push_back({key_, {}, {}, {}});
      place_ = Place::entry;
    } else {
      return misplaced("an object");
    }
    return true;
  }

  bool key(std::string name) override {
    key_ = std::move(name);
    if (place_ == Place::top && !names_.insert(key_).second) return duplicate();
    if (place_ == Place::metadata && metadata.contains(key_)) return duplicate();
    if (place_ == Place::entry) return entry_key();
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      const RawEntry& entry = entries.back();
      if (!entry.dtype || !entry.shape || !entry.offsets) {
        return fail(": tensor " + in_quotes(entry.name) + " lacks " +
                    (!entry.dtype   ? "dtype"
                     : !entry.shape ? "shape"
                                    : "data_offsets") +
                    ", but every tensor needs dtype, shape and data_offsets; write the file again");
      }
    }
    place_ = Place::top;
    return true;
  }

  bool start_array() override {
    if (place_ != Place::entry || key_ == "dtype") return misplaced("an array");
    (key_ == "shape" ? entries.back().shape : entries.back().offsets).emplace();
    place_ = Place::list;
    return true;
  }

  bool end_array() override {
    place_ = Place::entry;
    return true;
  }

  void malformed(std::size_t position) override {
    fail(" has a header that is not valid UTF-8 JSON at its byte " + std::to_string(position) +
         ", but a safetensors header is one JSON object; the file is damaged or of another format, " +
         "write it again");
  }

  Status status;
  std::vector<RawEntry> entries;
  std::map<std::string, std::string> metadata;

 private:
  enum class Place { start, top, metadata, entry, list };

  bool entry_key() {
    const RawEntry& entry = entries.back();
    if (key_ != "dtype" && key_ != "shape" && key_ != "data_offsets") {
      return fail(": tensor " + in_quotes(entry.name) + " has the key " + in_quotes(key_) +
                  ", but the format knows only dtype, shape and data_offsets; write the file without it");
    }
    const bool seen = key_ == "dtype" ? entry.dtype.has_value()
                                      : (key_ == "shape" ? entry.shape : entry.offsets).has_value();
    return !seen || duplicate();
  }

  bool duplicate() {
    return fail(
        " has the key " + in_quotes(key_) +
        " twice in one object of its header, but keys must be unique; rename one and write the file again");
  }

  bool misplaced(const std::string& what) {
    std::string where, rule;
    switch (place_) {
      case Place::start:
        where = " as its header";
        rule = "a header is a JSON object";
        break;
      case Place::top:
        where = " under " + in_quotes(key_);
        rule = "each name maps to an object";
        break;
      case Place::metadata:
        where = " as the metadata " + in_quotes(key_);
        rule = "metadata are strings";
        break;
      case Place::entry:
      case Place::list:
        where = " as the " + key_ + " of tensor " + in_quotes(entries.back().name);
        rule = key_ == "dtype" ? "it is a string" : "it is a list of integers from 0 to 2^64 - 1";
        break;
    }
    return fail(" has " + what + where + ", but " + rule + "; write the file again");
  }

  bool fail(const std::string& rest) {
    status = invalid_argument(file_ + rest);
    return false;
  }

  const std::string& file_;
  Place place_ = Place::start;
  std::string key_;
  std::set<std::string> names_;
};

/// Checks one entry's claims against each other. The data's length is checked by `check_tiling`.
Result<SafetensorsEntry> checked(RawEntry raw, const std::string& file) {
  const std::string subject = file + ": tensor " + in_quotes(raw.name);
  const auto type = std::ranges::find(kTypes, std::string_view(*raw.dtype), &NamedType::name);
  if (type == kTypes.end()) {
    return unsupported(subject + " has the dtype " + in_quotes(*raw.dtype) + ", but octet reads " +
                       type_names() + "; convert it to one of them");
  }
  SafetensorsEntry entry{std::move(raw.name), type->dtype, type->wide, {}, 0, 0};
  for (std::uint64_t size : *raw.shape) {
    if (size > std::uint64_t{INT64_MAX}) {
      return invalid_argument(
          subject + " has a size of " + std::to_string(size) +
          " in its shape, but sizes must be below 2^63; the file is damaged, write it again");
    }
    entry.shape.push_back(static_cast<std::int64_t>(size));
  }
  const auto bytes =
      total_bytes(type->wide ? DType::f64 : type->dtype, entry.shape);  // I64 is as wide as F64
  if (!bytes) {
    return invalid_argument(
        subject + " has the shape " + shape_text(entry.shape) +
        ", but a tensor's bytes must fit in 63 bits; the file is damaged, write it again");
  }
  if (raw.offsets->size() != 2 || (*raw.offsets)[0] > (*raw.offsets)[1]) {
    return invalid_argument(subject + " has data_offsets that are not [begin, end] with begin <= end" +
                            "; the file is damaged, write it again");
  }
  entry.begin = (*raw.offsets)[0];
  entry.end = (*raw.offsets)[1];
  if (entry.end - entry.begin != static_cast<std::uint64_t>(*bytes)) {
    return invalid_argument(subject + " has data_offsets of " + std::to_string(entry.end - entry.begin) +
                            " bytes, but its shape " + shape_text(entry.shape) + " of " +
                            std::string(type->name) + " needs " + std::to_string(*bytes) +
                            "; the file is damaged, write it again");
  }
  return entry;
}

/// Sorted entries must tile the data: an overlap could alias two tensors, a hole could hide anything.
Status check_tiling(std::span<const SafetensorsEntry> entries, std::uint64_t data_bytes,
                    const std::string& file) {
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string range =
        std::string("[") + std::to_string(entry.begin) + ", " + std::to_string(entry.end) + "]";
    if (entry.end > data_bytes) {
      return invalid_argument(file + ": tensor " + in_quotes(entry.name) + " has the data_offsets " + range +
                              ", but only " + std::to_string(data_bytes) +
                              " bytes of data follow the header; the file is cut short, " +
                              "copy or write it again");
    }
    if (entry.begin != at) {
      return invalid_argument(file + ": tensor " + in_quotes(entry.name) + " has the data_offsets " + range +
                              ", but the tensors before it end at " + std::to_string(at) +
                              " and neither overlaps nor holes are allowed; write the file again");
    }
    at = entry.end;
  }
  if (at == data_bytes) return {};
  return invalid_argument(file + " has " + std::to_string(data_bytes) +
                          " bytes of data, but its tensors end at " + std::to_string(at) +
                          " and every byte must belong to one; remove what follows, or write it again");
}

/// A JSON string. Error: not UTF-8.
Result<std::string> json_text(const std::string& text) {
  if (std::optional<std::string> quoted = json_quoted(text)) return std::move(*quoted);
  return invalid_argument("the name or metadata " + in_quotes(text) +
                          " is not UTF-8, but a safetensors header must be; use another text");
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                                   const std::string& name) {
  if (text.empty() || text.front() != '{') {
    return invalid_argument(
        name + " has a header that does not begin with '{', but a safetensors header is one JSON object; " +
        "the file is damaged or of another format, name a safetensors file");
  }
  // The parser takes a NUL for the end of its input, so whatever came after one would go unseen.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return invalid_argument(name + " has a NUL in its header at byte " + std::to_string(nul) +
                            ", but JSON has none; the file is damaged, write it again");
  }
  HeaderEvents events(name);
  if (!read_json(text, events)) return events.status;

  SafetensorsHeader header;
  header.metadata = std::move(events.metadata);
  header.entries.reserve(events.entries.size());
  for (RawEntry& raw : events.entries) {
    Result<SafetensorsEntry> entry = checked(std::move(raw), name);
    if (!entry.ok()) return entry.status();
    header.entries.push_back(entry.take());
  }
  std::ranges::stable_sort(header.entries, {},
                           [](const SafetensorsEntry& e) { return std::pair(e.begin, e.end); });
  if (Status tiling = check_tiling(header.entries, data_bytes, name); !tiling.ok()) return tiling;
  return header;
}

Result<std::string> safetensors_header_text(const SafetensorsHeader& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    text.append("\"").append(kMetadataKey).append("\":{");
    for (const auto& [key, value] : header.metadata) {
      Result<std::string> key_text = json_text(key), value_text = json_text(value);
      if (!key_text.ok()) return key_text.status();
      if (!value_text.ok()) return value_text.status();
      text.append(text.back() == '{' ? "" : ",")
          .append(key_text.value())
          .append(":")
          .append(value_text.value());
    }
    text += '}';
  }
  for (const SafetensorsEntry& entry : header.entries) {
    Result<std::string> name = json_text(entry.name);
    if (!name.ok()) return name.status();
    text.append(text.size() == 1 ? "" : ",").append(name.value()).append(":{\"dtype\":\"");
    text.append(kTypes[static_cast<std::size_t>(safetensors_order(entry.dtype))].name)
        .append("\",\"shape\":[");
    for (std::int64_t size : entry.shape)
      text.append(text.back() == '[' ? "" : ",").append(std::to_string(size));
    text.append("],\"data_offsets\":[").append(std::to_string(entry.begin)).append(",");
    text.append(std::to_string(entry.end)).append("]}");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8,
              ' ');  // after the 8 bytes of its length, so every dtype's data is aligned
  if (text.size() <= kMaxSafetensorsHeader) return text;
  return invalid_argument("the header would have " + std::to_string(text.size()) +
                          " bytes, but a safetensors header has at most " +
                          std::to_string(kMaxSafetensorsHeader) + "; write fewer tensors or metadata");
}

int safetensors_order(DType dtype) {
  const auto type =
      std::ranges::find_if(kTypes, [dtype](const NamedType& t) { return t.dtype == dtype && !t.wide; });
  assert(type != kTypes.end());  // check_host_tensor refuses s4, the only dtype without a name here
  return static_cast<int>(type - kTypes.begin());
}

}  // namespace octet::tool
