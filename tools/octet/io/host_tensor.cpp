#include "io/host_tensor.h"

#include <algorithm>
#include <limits>

namespace octet::tool {

std::int64_t HostTensor::elements() const {
  std::int64_t product = 1;
  for (std::int64_t size : shape) product *= size;
  return product;
}

std::int64_t element_bytes(DType dtype) { return dtype_bits(dtype) / 8; }

std::optional<std::int64_t> total_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::int64_t product = element_bytes(dtype);
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, size, &product)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

Result<HostTensor> make_host_tensor(DType dtype, std::vector<std::int64_t> shape) {
  HostTensor tensor{dtype, std::move(shape), {}};
  const auto bytes = total_bytes(dtype, tensor.shape);
  if (element_bytes(dtype) == 0) {
    return unsupported("a tensor of dtype s4 is not held in memory by itself; pack two codes into one u8");
  }
  if (!bytes || tensor.shape.size() > kMaxRank) {
    return invalid_argument("the shape " + shape_text(tensor.shape) +
                            " is not possible: sizes are not negative, at most " + std::to_string(kMaxRank) +
                            " of them, and their bytes must fit in 63 bits; use smaller sizes");
  }
  // More than a process can address on x86-64 and AArch64 is refused without asking: a sanitizer's allocator
  // aborts on it.
  constexpr std::int64_t kAddressable = std::int64_t{1} << 47;
  try {
    if (*bytes > kAddressable) throw std::bad_alloc();
    tensor.bytes.resize(static_cast<std::size_t>(*bytes));
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "there is no memory for a tensor of shape " +
                                           shape_text(tensor.shape) + " (" + std::to_string(*bytes) +
                                           " bytes); use smaller sizes");
  }
  return tensor;
}

Status check_host_tensor(const HostTensor& tensor, std::string_view name) {
  const auto bytes = total_bytes(tensor.dtype, tensor.shape);
  if (element_bytes(tensor.dtype) == 0) {
    return unsupported("tensor " + in_quotes(name) + " has dtype " + dtype_name(tensor.dtype) +
                       ", which files cannot hold; pack two codes into one u8");
  }
  if (!bytes || tensor.shape.size() > kMaxRank) {
    return invalid_argument("tensor " + in_quotes(name) + " has the shape " + shape_text(tensor.shape) +
                            ", but sizes must not be negative, number at most " + std::to_string(kMaxRank) +
                            " and give bytes that fit in 63 bits; use another shape");
  }
  if (static_cast<std::uint64_t>(*bytes) != tensor.bytes.size()) {
    return invalid_argument("tensor " + in_quotes(name) + " has " + std::to_string(tensor.bytes.size()) +
                            " bytes, but its shape " + shape_text(tensor.shape) + " of " +
                            dtype_name(tensor.dtype) + " needs " + std::to_string(*bytes) +
                            "; give it all of its values");
  }
  return tensor.dtype == DType::boolean ? check_booleans(tensor.bytes, "tensor " + in_quotes(name))
                                        : Status{};
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 80;  // a name longer than this hides the rest of the sentence
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + (text.size() > kShown ? "...\"" : "\"");
}

Status narrow_to_s32(std::span<const std::int64_t> from, std::span<std::int32_t> to, std::string_view name) {
  assert(from.size() == to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] < std::numeric_limits<std::int32_t>::min() ||
        from[i] > std::numeric_limits<std::int32_t>::max()) {
      return unsupported(std::string(name) + " has the 64-bit integer " + std::to_string(from[i]) +
                         " at index " + std::to_string(i) +
                         ", but octet's integers have 32 bits; store values that fit, or another dtype");
    }
    to[i] = static_cast<std::int32_t>(from[i]);
  }
  return {};
}

Status check_booleans(std::span<const std::byte> bytes, std::string_view name) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (bad == bytes.end()) return {};
  return invalid_argument(std::string(name) + " has the byte " + std::to_string(std::to_integer<int>(*bad)) +
                          " at index " + std::to_string(bad - bytes.begin()) +
                          " of booleans, but a boolean is 0 or 1; store it as U8, or write it again");
}

}  // namespace octet::tool
