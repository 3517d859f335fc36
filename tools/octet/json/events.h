// A JSON text as a sequence of events, for documents that must be checked while they are read.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace octet::tool {

/// What reading meets, in the text's order. Each returns whether to go on.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool integer(std::int64_t value) = 0;   ///< below zero
  virtual bool natural(std::uint64_t value) = 0;  ///< zero and above
  virtual bool real(double value, const std::string& text) = 0;
  virtual bool string(std::string value) = 0;
  virtual bool start_object() = 0;
  virtual bool key(std::string name) = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  /// The text is no UTF-8 JSON at its byte `position`; nothing follows.
  virtual void malformed(std::size_t position) = 0;
};

/// False where an event said to stop, or the text is malformed. The stack does not grow with the nesting.
bool read_json(std::string_view text, JsonEvents& events);

/// A text as a JSON string with its quotes; none where it is not UTF-8.
std::optional<std::string> json_quoted(std::string_view text);

}  // namespace octet::tool
