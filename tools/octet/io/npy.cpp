#include "io/npy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "io/atomic_file.h"
#include "io/byte_source.h"
#include "io/npy_header.h"

namespace octet::tool {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kPrefix = 8;  // magic, major and minor version; the header's length follows
// What version 1.0 can say. Later versions exist for structured dtypes with many fields, which are refused
// anyway.
constexpr std::uint64_t kMaxHeader = 65535;

/// Where the dict is, checked against the file.
struct HeaderRange {
  std::uint64_t begin = 0, length = 0;
};

Result<HeaderRange> find_header(const ByteSource& source) {
  const auto cut_short = [&source](std::uint64_t needed) {
    return invalid_argument(source.name + " has " + std::to_string(source.size) +
                            " bytes, but its .npy header needs " + std::to_string(needed) +
                            "; the file is empty or cut short, copy or write it again");
  };
  if (source.size < kPrefix) return cut_short(kPrefix);
  std::array<std::byte, kPrefix + 4> start{};
  if (Status read = source.read(0, std::span(start).first(kPrefix)); !read.ok()) return read;
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0) {
    return invalid_argument(source.name + " does not begin with \"\\x93NUMPY\", as every .npy file does; " +
                            "name a file that numpy.save wrote");
  }
  const int major = std::to_integer<int>(start[6]), minor = std::to_integer<int>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return unsupported(source.name + " has .npy version " + std::to_string(major) + "." +
                       std::to_string(minor) +
                       ", but octet reads 1.0, 2.0 and 3.0; write it again with numpy.save");
  }
  const std::uint64_t length_bytes = major == 1 ? 2 : 4;
  if (source.size < kPrefix + length_bytes) return cut_short(kPrefix + length_bytes);
  const auto length_at = std::span(start).subspan(kPrefix, length_bytes);
  if (Status read = source.read(kPrefix, length_at); !read.ok()) return read;
  const HeaderRange range{kPrefix + length_bytes, little_endian(length_at)};
  if (range.length > kMaxHeader) {
    return invalid_argument(source.name + " claims a header of " + std::to_string(range.length) +
                            " bytes, but plain arrays need at most " + std::to_string(kMaxHeader) +
                            "; write it again with numpy.save");
  }
  if (range.length > source.size - range.begin) return cut_short(range.begin + range.length);
  return range;
}

/// Copies the elements of an array whose first index is fastest into one whose last index is. Cost: one pass
/// over `to`.
template <class T>
void reorder(std::span<const std::int64_t> shape, const std::byte* from, std::byte* to, std::size_t count) {
  const std::size_t rank = shape.size();
  std::vector<std::size_t> stride(rank), index(rank, 0);
  for (std::size_t axis = 0, step = 1; axis < rank; ++axis) {
    stride[axis] = step;
    step *= static_cast<std::size_t>(shape[axis]);
  }
  std::size_t at = 0;  // of the source, in elements: the sum of index * stride
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * sizeof(T), from + at * sizeof(T), sizeof(T));
    for (std::size_t axis = rank;
         axis-- > 0;) {  // the odometer: the last index that is not at its end advances
      at += stride[axis];
      if (++index[axis] < static_cast<std::size_t>(shape[axis])) break;
      at -= stride[axis] * index[axis];
      index[axis] = 0;
    }
  }
}

void to_c_order(const HostTensor& from, HostTensor& to) {
  const auto count = static_cast<std::size_t>(from.elements());
  switch (element_bytes(from.dtype)) {
    case 1:
      return reorder<std::uint8_t>(from.shape, from.bytes.data(), to.bytes.data(), count);
    case 2:
      return reorder<std::uint16_t>(from.shape, from.bytes.data(), to.bytes.data(), count);
    case 4:
      return reorder<std::uint32_t>(from.shape, from.bytes.data(), to.bytes.data(), count);
    default:
      return reorder<std::uint64_t>(from.shape, from.bytes.data(), to.bytes.data(), count);
  }
}

Status read_values(const ByteSource& source, std::uint64_t data_at, const NpyHeader& header,
                   HostTensor& tensor) {
  if (header.wide) {
    std::vector<std::int64_t> wide(static_cast<std::size_t>(tensor.elements()));
    if (Status read = source.read(data_at, std::as_writable_bytes(std::span(wide))); !read.ok()) return read;
    return narrow_to_s32(wide, tensor.values<std::int32_t>(), source.name);
  }
  if (Status read = source.read(data_at, tensor.bytes); !read.ok()) return read;
  return header.dtype == DType::boolean ? check_booleans(tensor.bytes, source.name) : Status{};
}

Result<HostTensor> decode_npy(const ByteSource& source) try {
  const Result<HeaderRange> range = find_header(source);
  if (!range.ok()) return range.status();
  std::string text(static_cast<std::size_t>(range.value().length), '\0');
  if (Status read = source.read(range.value().begin, std::as_writable_bytes(std::span(text))); !read.ok())
    return read;
  const Result<NpyHeader> header = parse_npy_header(text, source.name);
  if (!header.ok()) return header.status();

  const std::uint64_t data_at = range.value().begin + range.value().length;
  const std::uint64_t found = source.size - data_at;
  if (found != static_cast<std::uint64_t>(header.value().data_bytes)) {
    return invalid_argument(source.name + " has " + std::to_string(found) + " bytes of data, but its shape " +
                            shape_text(header.value().shape) + " needs " +
                            std::to_string(header.value().data_bytes) +
                            "; the file is cut short or has something appended, copy or write it again");
  }
  Result<HostTensor> tensor = make_host_tensor(header.value().dtype, header.value().shape);
  if (!tensor.ok()) return Status(tensor.status().code(), source.name + ": " + tensor.status().message());
  if (Status read = read_values(source, data_at, header.value(), tensor.value()); !read.ok()) return read;
  if (header.value().order == IndexOrder::c || tensor.value().shape.size() < 2) return tensor;

  HostTensor ordered = tensor.value();
  to_c_order(tensor.value(), ordered);
  return ordered;
} catch (const std::bad_alloc&) {
  return Status(Code::out_of_memory, source.name + " does not fit in memory; split it into smaller files");
}

/// Everything before the values: magic, version, length, dict, and spaces so that the values start at a
/// multiple of 64.
Result<std::string> encode_head(const HostTensor& tensor) {
  if (Status valid = check_host_tensor(tensor, "of the .npy file"); !valid.ok()) return valid;
  if (npy_descr(tensor.dtype).empty()) {
    return unsupported("the dtype " + dtype_name(tensor.dtype) +
                       " has no .npy form, as NumPy lacks it; write a safetensors file instead");
  }
  std::string text = npy_header_text(tensor.dtype, tensor.shape);
  constexpr std::size_t kAlign = 64, kBefore = kPrefix + 2;  // the format's alignment; what precedes the dict
  text.append(kAlign - (kBefore + text.size() + 1) % kAlign, ' ');
  text += '\n';
  std::string head(kMagic);
  head += {'\1', '\0', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  return head + text;
}

}  // namespace

Result<HostTensor> read_npy(const std::string& path) {
  const Result<ByteSource> source = file_source(path);
  if (!source.ok()) return source.status();
  return decode_npy(source.value());
}

Result<HostTensor> parse_npy(std::span<const std::byte> bytes, std::string_view name) {
  return decode_npy(memory_source(bytes, name));
}

Result<std::string> encode_npy(const HostTensor& tensor) {
  Result<std::string> head = encode_head(tensor);
  if (!head.ok()) return head.status();
  std::string bytes = head.take();
  try {
    bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory,
                  "there is no memory for the bytes of a file; write it to a disk instead");
  }
  return bytes;
}

Status write_npy(const std::string& path, const HostTensor& tensor) {
  const Result<std::string> head = encode_head(tensor);
  if (!head.ok()) return Status(head.status().code(), in_quotes(path) + ": " + head.status().message());
  const std::array<ByteSpan, 2> pieces{std::as_bytes(std::span(head.value())), tensor.bytes};
  return write_file_atomically(path, pieces);
}

}  // namespace octet::tool
