// A JSON document as a value, which commands build and the report reads.
//
// nlohmann-json reads and writes the text. Its own value is made of templates that cost every file 2 to 5 CPU
// s, so json.cpp alone includes it, and what stands here is plain and not inline.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace octet::tool {

/// Null, a boolean, a number, a string, an array, or an object, whose members keep the order in which they
/// were added. Reading what is not there, or is of another kind, throws a std::exception.
class Json {
 public:
  struct Member;

  Json();                 // null, which becomes an array or object with its first item or member
  Json(std::nullptr_t);   // NOLINT: implicit, as all of these, so that a document in code reads as JSON does
  Json(bool value);       // NOLINT
  Json(int number);       // NOLINT
  Json(unsigned number);  // NOLINT
  Json(std::int64_t number);                    // NOLINT
  Json(std::uint64_t number);                   // NOLINT
  Json(double number);                          // NOLINT
  Json(const char* text);                       // NOLINT
  Json(std::string_view text);                  // NOLINT
  Json(std::string text);                       // NOLINT
  Json(std::vector<Json> items);                // NOLINT
  Json(std::initializer_list<Member> members);  // {{"key", value}, ...}
  template <class T>
  Json(const std::vector<T>& items) : Json(std::vector<Json>(items.begin(), items.end())) {}  // NOLINT
  static Json array(std::initializer_list<Json> items = {});
  static Json object();

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  bool is_null() const { return kind_ == Kind::null; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_number() const { return is_number_integer() || kind_ == Kind::real; }
  bool is_number_integer() const { return kind_ == Kind::integer || kind_ == Kind::natural; }

  /// A bool, a number or a std::string. A number that is none, for an integer, is another kind.
  template <class T>
  T get() const {
    if constexpr (std::is_same_v<T, bool>) {
      return boolean();
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(integer());
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(number());
    } else {
      return string();
    }
  }

  // An object; null is an empty one.
  bool contains(std::string_view key) const;
  const Json& at(std::string_view key) const;
  const Json& operator[](std::string_view key) const { return at(key); }
  Json& operator[](std::string_view key);  ///< adds null where there is none
  /// The member `key`, or `otherwise` where there is none.
  template <class T>
  T value(std::string_view key, T otherwise) const {
    return contains(key) ? at(key).get<T>() : otherwise;
  }
  std::string value(std::string_view key, const char* otherwise) const {
    return value(key, std::string(otherwise));
  }
  void erase(std::string_view key);
  /// Adds the members of an object, or puts them in the place of those of the same key.
  void update(const Json& object);
  const std::vector<Member>& items() const;

  // An array; null is an empty one.
  std::size_t size() const { return list().size(); }
  const Json& operator[](std::size_t i) const { return list().at(i); }
  Json& operator[](std::size_t i) { return list().at(i); }
  bool empty() const { return list().empty(); }
  const Json& front() const { return list().at(0); }
  const Json& back() const { return list().at(size() - 1); }
  Json& back() { return list().at(size() - 1); }
  const Json* begin() const { return list().data(); }
  const Json* end() const { return begin() + size(); }
  Json* begin() { return list().data(); }
  Json* end() { return begin() + size(); }
  void push_back(Json item);

  /// Numbers of different kinds are equal where their values are.
  bool operator==(const Json& other) const;

  static constexpr int kOneLine = -1;
  /// The text, in lines indented by `indent` a level. NaN and infinities become null, and what is not UTF-8
  /// the replacement character: JSON has neither.
  std::string dump(int indent = kOneLine) const;
  /// Where the text is no JSON, parse throws a std::exception, and parse_or_null gives null.
  static Json parse(std::string_view text);
  static Json parse(std::istream& file);
  static Json parse_or_null(std::istream& file);
  friend std::ostream& operator<<(std::ostream& out, const Json& json);

 private:
  enum class Kind { null, boolean, integer, natural, real, string, array, object };
  struct Library;  ///< to and from nlohmann-json's value

  bool boolean() const;
  double number() const;
  std::int64_t integer() const;
  const std::string& string() const;
  const std::vector<Json>& list() const;
  std::vector<Json>& list();
  const Json* find(std::string_view key) const;  ///< null where there is none
  void must_be(Kind kind) const;
  void become(Kind kind);  ///< if it is null

  Kind kind_ = Kind::null;
  union {
    bool boolean;
    std::int64_t integer;  ///< below zero
    std::uint64_t natural;
    double real;
  } scalar_{};
  std::string text_;
  std::vector<Json> items_;
  std::vector<Member> members_;
};

struct Json::Member {
  std::string key;
  Json value;
};

}  // namespace octet::tool
