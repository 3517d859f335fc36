#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "io/atomic_file.h"
#include "io/byte_source.h"
#include "io/safetensors_header.h"

namespace octet::tool {
namespace {

constexpr std::uint64_t kLengthBytes =
    8;  // the header's length, little-endian, is all that comes before the header

/// The header's length, checked against the format's limit and the file before anything is allocated for it.
Result<std::uint64_t> header_length(const ByteSource& source) {
  if (source.size < kLengthBytes) {
    return invalid_argument(source.name + " has " + std::to_string(source.size) +
                            " bytes, but a safetensors file begins with 8 bytes of header length; "
                            "the file is empty or cut short, write it again");
  }
  std::array<std::byte, kLengthBytes> prefix{};
  if (Status read = source.read(0, prefix); !read.ok()) return read;
  const std::uint64_t length = little_endian(prefix);
  if (length > kMaxSafetensorsHeader) {
    return invalid_argument(
        source.name + " claims a header of " + std::to_string(length) + " bytes, but at most " +
        std::to_string(kMaxSafetensorsHeader) +
        " are allowed; the file is damaged or of another format, name a safetensors file");
  }
  if (length > source.size - kLengthBytes) {
    return invalid_argument(source.name + " claims a header of " + std::to_string(length) +
                            " bytes, but has only " + std::to_string(source.size - kLengthBytes) +
                            " after the length; the file is cut short, copy or write it again");
  }
  return length;
}

/// One tensor, straight from the source into place. The entry is checked: its bytes are there.
Result<HostTensor> read_tensor(const ByteSource& source, const SafetensorsEntry& entry,
                               std::uint64_t data_at) {
  const std::string subject = source.name + ": tensor " + in_quotes(entry.name);
  Result<HostTensor> made = make_host_tensor(entry.dtype, entry.shape);
  if (!made.ok()) return Status(made.status().code(), subject + ": " + made.status().message());
  HostTensor tensor = made.take();
  if (entry.wide) {
    std::vector<std::int64_t> wide(static_cast<std::size_t>(tensor.elements()));
    if (Status read = source.read(data_at + entry.begin, std::as_writable_bytes(std::span(wide))); !read.ok())
      return read;
    if (Status fits = narrow_to_s32(wide, tensor.values<std::int32_t>(), subject); !fits.ok()) return fits;
    return tensor;
  }
  if (Status read = source.read(data_at + entry.begin, tensor.bytes); !read.ok()) return read;
  if (entry.dtype == DType::boolean) {
    if (Status valid = check_booleans(tensor.bytes, subject); !valid.ok()) return valid;
  }
  return tensor;
}

Result<TensorFile> decode_safetensors(const ByteSource& source) try {
  const Result<std::uint64_t> length = header_length(source);
  if (!length.ok()) return length.status();
  std::string text(static_cast<std::size_t>(length.value()), '\0');
  if (Status read = source.read(kLengthBytes, std::as_writable_bytes(std::span(text))); !read.ok())
    return read;

  const std::uint64_t data_at = kLengthBytes + length.value();
  Result<SafetensorsHeader> header = parse_safetensors_header(text, source.size - data_at, source.name);
  if (!header.ok()) return header.status();

  TensorFile file;
  file.metadata = std::move(header.value().metadata);
  for (const SafetensorsEntry& entry : header.value().entries) {
    Result<HostTensor> tensor = read_tensor(source, entry, data_at);
    if (!tensor.ok()) return tensor.status();
    file.tensors.emplace(entry.name, tensor.take());
  }
  return file;
} catch (const std::bad_alloc&) {
  return Status(Code::out_of_memory, source.name + " does not fit in memory; split it into smaller files");
}

/// A file ready to write: its first bytes, and the tensors' own in order.
struct Encoded {
  std::string head;  ///< length and header
  std::vector<ByteSpan> data;
};

Result<Encoded> lay_out(const TensorFile& file) {
  SafetensorsHeader header;
  header.metadata = file.metadata;
  for (const auto& [name, tensor] : file.tensors) {
    if (name == kMetadataKey) {
      return invalid_argument("a tensor is named " + in_quotes(name) +
                              ", which the format keeps for metadata; use another name");
    }
    if (Status valid = check_host_tensor(tensor, name); !valid.ok()) return valid;
    header.entries.push_back({name, tensor.dtype, false, tensor.shape, 0, 0});
  }
  std::ranges::sort(header.entries, {}, [](const SafetensorsEntry& entry) {
    return std::tuple(safetensors_order(entry.dtype), std::string_view(entry.name));
  });
  Encoded encoded;
  std::uint64_t at = 0;
  for (SafetensorsEntry& entry : header.entries) {
    const ByteSpan bytes = file.tensors.at(entry.name).bytes;
    entry.begin = at;
    entry.end = at += bytes.size();  // a sum of sizes in memory: cannot wrap
    encoded.data.push_back(bytes);
  }
  Result<std::string> text = safetensors_header_text(header);
  if (!text.ok()) return text.status();
  const std::uint64_t length = text.value().size();
  encoded.head.resize(kLengthBytes);
  std::memcpy(encoded.head.data(), &length, kLengthBytes);
  encoded.head += text.value();
  return encoded;
}

}  // namespace

Result<TensorFile> read_safetensors(const std::string& path) {
  const Result<ByteSource> source = file_source(path);
  if (!source.ok()) return source.status();
  return decode_safetensors(source.value());
}

Result<TensorFile> parse_safetensors(std::span<const std::byte> bytes, std::string_view name) {
  return decode_safetensors(memory_source(bytes, name));
}

Result<std::string> encode_safetensors(const TensorFile& file) {
  Result<Encoded> encoded = lay_out(file);
  if (!encoded.ok()) return encoded.status();
  std::string bytes = std::move(encoded.value().head);
  try {
    for (ByteSpan data : encoded.value().data)
      bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory,
                  "there is no memory for the bytes of a file; write it to a disk instead");
  }
  return bytes;
}

Status write_safetensors(const std::string& path, const TensorFile& file) {
  Result<Encoded> encoded = lay_out(file);
  if (!encoded.ok())
    return Status(encoded.status().code(), in_quotes(path) + ": " + encoded.status().message());
  std::vector<ByteSpan> pieces{std::as_bytes(std::span(encoded.value().head))};
  pieces.insert(pieces.end(), encoded.value().data.begin(), encoded.value().data.end());
  return write_file_atomically(path, pieces);
}

}  // namespace octet::tool
