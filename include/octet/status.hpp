// Status and Result: how everything in octet that can fail says so. Header-only, no exceptions needed.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace octet {

/// What kind of failure it was. The numbers are part of the C ABI (octet_status in octet.h).
enum class Code : std::int32_t {
  ok = 0,
  invalid_argument = 1,  ///< an argument breaks a rule; the message names argument, value, rule and remedy
  unsupported = 2,       ///< the scheme, backend or machine does not offer what was asked
  non_finite = 3,        ///< NaN or Inf where the scheme's quantiser needs numbers
  out_of_memory = 4,
  io = 5,        ///< a file could not be read or written
  internal = 6,  ///< our own mistake: please report it
};

/// A code and one sentence: argument, value, rule, remedy.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

inline Status invalid_argument(std::string message) { return {Code::invalid_argument, std::move(message)}; }
inline Status unsupported(std::string message) { return {Code::unsupported, std::move(message)}; }

/// Either a value or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return value;` reads well
  Result(Status status) : status_(std::move(status)) {}  // NOLINT

  bool ok() const { return value_.has_value(); }
  Status status() const { return status_; }
  T& value() { return value_.value(); }
  const T& value() const { return value_.value(); }
  T take() { return std::move(value_.value()); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace octet
