#include "io/npy_header.h"

#include <algorithm>
#include <array>
#include <optional>

#include "io/host_tensor.h"

namespace octet::tool {
namespace {

struct Descr {
  std::string_view descr;  ///< as NumPy writes it: '|' where there is no byte order
  DType dtype;
  bool wide;
};

constexpr std::array<Descr, 8> kDescrs{{{"<f2", DType::f16, false},
                                        {"<f4", DType::f32, false},
                                        {"<f8", DType::f64, false},
                                        {"|i1", DType::s8, false},
                                        {"|u1", DType::u8, false},
                                        {"<i4", DType::s32, false},
                                        {"<i8", DType::s32, true},
                                        {"|b1", DType::boolean, false}}};

/// The literals of a header, read from left to right; no recursion, as nothing that we accept nests.
class Literals {
 public:
  explicit Literals(std::string_view text) : text_(text) {}

  std::size_t position() const { return at_; }

  bool at_end() {
    skip_spaces();
    return at_ == text_.size();
  }

  /// Takes the word if it is next.
  bool take(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  /// A string in either quote. An escape is refused: no key and no plain dtype has one.
  std::optional<std::string_view> string() {
    skip_spaces();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view content = text_.substr(at_ + 1, end - at_ - 1);
    if (content.find_first_of("\\\n") != std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    return content;
  }

  std::optional<bool> boolean() {
    if (take("True")) return true;
    if (take("False")) return false;
    return std::nullopt;
  }

  /// A decimal integer from 0 to 2^63 - 1, optionally with Python 2's L.
  std::optional<std::int64_t> integer() {
    skip_spaces();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value)) return std::nullopt;
      if (__builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value)) return std::nullopt;
    }
    if (at_ == begin || (text_[begin] == '0' && at_ > begin + 1)) return std::nullopt;  // Python refuses 010
    take("L");
    return value;
  }

  /// A tuple of at most kMaxRank integers: (), (3,), (3, 4), (3, 4,). As in Python, (3) is none.
  std::optional<std::vector<std::int64_t>> tuple() {
    if (!take("(")) return std::nullopt;
    std::vector<std::int64_t> values;
    bool comma = true;
    while (!take(")")) {
      const auto value = comma && values.size() < kMaxRank ? integer() : std::nullopt;
      if (!value) return std::nullopt;
      values.push_back(*value);
      comma = take(",");
    }
    if (values.size() == 1 && !comma) return std::nullopt;
    return values;
  }

 private:
  void skip_spaces() { at_ = std::min(text_.find_first_not_of(" \t\r\n\f", at_), text_.size()); }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// What the dict says, before it means anything.
struct RawHeader {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

/// Reads one value; false if it is not what the key asks for, or the key is unknown or was there already.
bool read_value(Literals& in, std::string_view key, RawHeader& raw) {
  if (key == "descr" && !raw.descr) return (raw.descr = in.string()).has_value();
  if (key == "fortran_order" && !raw.fortran_order) return (raw.fortran_order = in.boolean()).has_value();
  if (key == "shape" && !raw.shape) return (raw.shape = in.tuple()).has_value();
  return false;
}

Status malformed(const std::string& name, std::size_t position, std::string_view expected) {
  return invalid_argument(name + " has a header with something other than " + std::string(expected) +
                          " at its byte " + std::to_string(position) +
                          ", but a .npy header is a dict with descr, fortran_order and shape, once each; "
                          "write the file again with numpy.save");
}

Result<RawHeader> read_dict(std::string_view text, const std::string& name) {
  Literals in(text);
  RawHeader raw;
  if (!in.take("{")) return malformed(name, in.position(), "'{'");
  bool comma = true;
  while (!in.take("}")) {
    const auto key = comma ? in.string() : std::nullopt;
    if (!key) return malformed(name, in.position(), comma ? "a quoted key or '}'" : "',' or '}'");
    if (!in.take(":")) return malformed(name, in.position(), "':'");
    if (*key == "descr" && in.take("[")) {
      return unsupported(name +
                         " has a structured dtype (its descr is a list), but octet reads plain numbers; "
                         "save one field of the array by itself");
    }
    if (!read_value(in, *key, raw))
      return malformed(name, in.position(), "a value for the key " + in_quotes(*key));
    comma = in.take(",");
  }
  if (!in.at_end()) return malformed(name, in.position(), "spaces after the dict");
  if (raw.descr && raw.fortran_order && raw.shape) return raw;
  return malformed(name, in.position(),
                   !raw.descr   ? "'descr' before '}'"
                   : !raw.shape ? "'shape' before '}'"
                                : "'fortran_order' before '}'");
}

/// Whether a descr means the type: a byte order before a one-byte type says nothing, '|' before a wider one
/// is not written.
bool means(std::string_view descr, const Descr& type) {
  if (descr.size() != 3 || descr.substr(1) != type.descr.substr(1)) return false;
  return descr[0] == type.descr[0] || (type.descr[0] == '|' && (descr[0] == '<' || descr[0] == '>'));
}

Status unknown_descr(std::string_view descr, const std::string& name) {
  const std::string found = name + " has the dtype " + in_quotes(descr);
  if (descr.starts_with('>')) {
    return unsupported(found +
                       ", which is big-endian, but octet reads little-endian files; "
                       "save array.astype(array.dtype.newbyteorder('<'))");
  }
  std::string names;
  for (const Descr& type : kDescrs) names.append(names.empty() ? "" : ", ").append(type.descr);
  return unsupported(found + ", but octet reads " + names +
                     "; convert it with astype, or use safetensors for bf16 and fp8");
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view text, const std::string& name) {
  Result<RawHeader> raw = read_dict(text, name);
  if (!raw.ok()) return raw.status();
  const std::string_view descr = *raw.value().descr;
  const auto type = std::ranges::find_if(kDescrs, [descr](const Descr& t) { return means(descr, t); });
  if (type == kDescrs.end()) return unknown_descr(descr, name);

  NpyHeader header;
  header.dtype = type->dtype;
  header.wide = type->wide;
  header.order = *raw.value().fortran_order ? IndexOrder::fortran : IndexOrder::c;
  header.shape = std::move(*raw.value().shape);
  const auto bytes = total_bytes(type->wide ? DType::f64 : type->dtype, header.shape);  // i8 is as wide as f8
  if (!bytes) {
    return invalid_argument(
        name + " has the shape " + shape_text(header.shape) +
        ", but an array's bytes must fit in 63 bits; the file is damaged, write it again");
  }
  header.data_bytes = *bytes;
  return header;
}

std::string npy_header_text(DType dtype, const std::vector<std::int64_t>& shape) {
  std::string text = "{'descr': '" + std::string(npy_descr(dtype)) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
  text += shape.size() == 1 ? ",), }" : "), }";
  // NumPy leaves room for an array to grow along its first axis in place: 21 digits hold any size.
  constexpr std::size_t kGrowth = 21;
  if (!shape.empty()) text.append(kGrowth - std::to_string(shape[0]).size(), ' ');
  return text;
}

std::string_view npy_descr(DType dtype) {
  const auto type =
      std::ranges::find_if(kDescrs, [dtype](const Descr& t) { return t.dtype == dtype && !t.wide; });
  return type == kDescrs.end() ? std::string_view{} : type->descr;
}

}  // namespace octet::tool
