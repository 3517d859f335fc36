#include "json/json.h"

#include <algorithm>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "json/events.h"

namespace octet::tool {

Json::Json() = default;
Json::Json(std::nullptr_t) {}
Json::Json(bool value) : kind_(Kind::boolean) { scalar_.boolean = value; }
Json::Json(int number) : Json(std::int64_t{number}) {}
Json::Json(unsigned number) : Json(std::uint64_t{number}) {}
Json::Json(std::uint64_t number) : kind_(Kind::natural) { scalar_.natural = number; }
Json::Json(double number) : kind_(Kind::real) { scalar_.real = number; }
Json::Json(const char* text) : kind_(Kind::string), text_(text) {}
Json::Json(std::string_view text) : kind_(Kind::string), text_(text) {}
Json::Json(std::string text) : kind_(Kind::string), text_(std::move(text)) {}
Json::Json(std::vector<Json> items) : kind_(Kind::array), items_(std::move(items)) {}
Json::Json(std::initializer_list<Member> members) : kind_(Kind::object), members_(members) {}

Json::Json(std::int64_t number) : kind_(number < 0 ? Kind::integer : Kind::natural) {
  if (number < 0) {
    scalar_.integer = number;
  } else {
    scalar_.natural = static_cast<std::uint64_t>(number);
  }
}

Json Json::array(std::initializer_list<Json> items) { return std::vector<Json>(items); }
Json Json::object() { return std::initializer_list<Member>{}; }

Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

void Json::must_be(Kind kind) const {
  if (kind_ != kind) throw std::invalid_argument("a JSON value is of another kind: " + dump());
}

void Json::become(Kind kind) {
  if (is_null()) kind_ = kind;
  must_be(kind);
}

bool Json::boolean() const {
  must_be(Kind::boolean);
  return scalar_.boolean;
}

double Json::number() const {
  if (kind_ == Kind::integer) return static_cast<double>(scalar_.integer);
  if (kind_ == Kind::natural) return static_cast<double>(scalar_.natural);
  must_be(Kind::real);
  return scalar_.real;
}

std::int64_t Json::integer() const {
  if (kind_ == Kind::integer) return scalar_.integer;
  must_be(Kind::natural);
  if (scalar_.natural > std::uint64_t{INT64_MAX})
    throw std::out_of_range("a JSON number does not fit 63 bits");
  return static_cast<std::int64_t>(scalar_.natural);
}

const std::string& Json::string() const {
  must_be(Kind::string);
  return text_;
}

const std::vector<Json>& Json::list() const {
  if (!is_null()) must_be(Kind::array);
  return items_;
}

std::vector<Json>& Json::list() {
  if (!is_null()) must_be(Kind::array);
  return items_;
}

const std::vector<Json::Member>& Json::items() const {
  if (!is_null()) must_be(Kind::object);
  return members_;
}

const Json* Json::find(std::string_view key) const {
  const auto member = std::ranges::find(members_, key, &Member::key);
  return member == members_.end() ? nullptr : &member->value;
}

bool Json::contains(std::string_view key) const { return find(key) != nullptr; }

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  throw std::out_of_range("a JSON object has no member " + std::string(key));
}

Json& Json::operator[](std::string_view key) {
  become(Kind::object);
  if (const Json* found = find(key)) return const_cast<Json&>(*found);
  return members_.emplace_back(Member{std::string(key), {}}).value;
}

void Json::erase(std::string_view key) {
  std::erase_if(members_, [key](const Member& member) { return member.key == key; });
}

void Json::update(const Json& object) {
  for (const auto& [key, value] : object.items()) (*this)[key] = value;
}

void Json::push_back(Json item) {
  become(Kind::array);
  items_.push_back(std::move(item));
}

struct Json::Library {
  using Other = nlohmann::ordered_json;

  static Other to(const Json& json) {
    switch (json.kind_) {
      case Kind::null:
        break;
      case Kind::boolean:
        return json.scalar_.boolean;
      case Kind::integer:
        return json.scalar_.integer;
      case Kind::natural:
        return json.scalar_.natural;
      case Kind::real:
        return json.scalar_.real;
      case Kind::string:
        return json.text_;
      case Kind::array: {
        Other array = Other::array();
        for (const Json& item : json.items_) array.push_back(to(item));
        return array;
      }
      case Kind::object: {
        Other object = Other::object();
        for (const Member& member : json.members_) object[member.key] = to(member.value);
        return object;
      }
    }
    return nullptr;
  }
};

bool Json::operator==(const Json& other) const {
  if (kind_ != other.kind_) return is_number() && other.is_number() && number() == other.number();
  switch (kind_) {
    case Kind::null:
      return true;
    case Kind::boolean:
      return scalar_.boolean == other.scalar_.boolean;
    case Kind::integer:
      return scalar_.integer == other.scalar_.integer;
    case Kind::natural:
      return scalar_.natural == other.scalar_.natural;
    case Kind::real:
      return scalar_.real == other.scalar_.real;
    case Kind::string:
      return text_ == other.text_;
    case Kind::array:
      return items_ == other.items_;
    case Kind::object:
      return std::ranges::equal(members_, other.members_, [](const Member& a, const Member& b) {
        return a.key == b.key && a.value == b.value;
      });
  }
  return false;
}

std::string Json::dump(int indent) const {
  return Library::to(*this).dump(indent, ' ', false, Library::Other::error_handler_t::replace);
}

namespace {

/// The library's events to ours.
class Forward final : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  explicit Forward(JsonEvents& events) : to_(events) {}

  bool null() override { return to_.null(); }
  bool boolean(bool value) override { return to_.boolean(value); }
  bool number_integer(number_integer_t value) override { return to_.integer(value); }
  bool number_unsigned(number_unsigned_t value) override { return to_.natural(value); }
  bool number_float(number_float_t value, const string_t& text) override { return to_.real(value, text); }
  bool string(string_t& value) override { return to_.string(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // note: a text has none
  bool start_object(std::size_t) override { return to_.start_object(); }
  bool key(string_t& name) override { return to_.key(std::move(name)); }
  bool end_object() override { return to_.end_object(); }
  bool start_array(std::size_t) override { return to_.start_array(); }
  bool end_array() override { return to_.end_array(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    // note: the library's own message is left out; it repeats the file's bytes, which need not be fit for a
    // terminal.
    to_.malformed(position);
    return false;
  }

 private:
  JsonEvents& to_;
};

/// Events to a value. Of a key that comes twice the last value stays.
class Build final : public JsonEvents {
 public:
  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value); }
  bool integer(std::int64_t value) override { return add(value); }
  bool natural(std::uint64_t value) override { return add(value); }
  bool real(double value, const std::string&) override { return add(value); }
  bool string(std::string value) override { return add(std::move(value)); }
  bool start_object() override { return open(Json::object()); }
  bool start_array() override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string name) override {
    open_.back().key = std::move(name);
    return true;
  }
  void malformed(std::size_t position) override {
    error = "the text is no JSON at its byte " + std::to_string(position);
  }

  Json document;
  std::string error;

 private:
  struct Open {
    Json container;
    std::string key;  ///< of an object's member that comes next
  };

  bool add(Json item) {
    if (open_.empty()) {
      document = std::move(item);
    } else if (Json& container = open_.back().container; container.is_array()) {
      container.push_back(std::move(item));
    } else {
      container[open_.back().key] = std::move(item);
    }
    return true;
  }
  bool open(Json container) {
    open_.push_back({std::move(container), {}});
    return true;
  }
  bool close() {
    Json done = std::move(open_.back().container);
    open_.pop_back();
    return add(std::move(done));
  }

  std::vector<Open> open_;
};

std::string text_of(std::istream& file) { return {std::istreambuf_iterator<char>(file), {}}; }

}  // namespace

bool read_json(std::string_view text, JsonEvents& events) {
  Forward forward(events);
  return nlohmann::ordered_json::sax_parse(text.begin(), text.end(), &forward);
}

std::optional<std::string> json_quoted(std::string_view text) {
  try {
    return nlohmann::ordered_json(text).dump();
  } catch (const nlohmann::detail::exception&) {
    return std::nullopt;
  }
}

Json Json::parse(std::string_view text) {
  Build build;
  if (!read_json(text, build)) throw std::invalid_argument(build.error);
  return std::move(build.document);
}

Json Json::parse(std::istream& file) { return parse(text_of(file)); }

Json Json::parse_or_null(std::istream& file) {
  Build build;
  return read_json(text_of(file), build) ? std::move(build.document) : Json();
}

std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

}  // namespace octet::tool
