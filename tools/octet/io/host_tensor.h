// HostTensor: a dense tensor in this process's memory, as a file holds it. Files in, files out; no
// arithmetic.
#pragma once
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "octet/dtype.hpp"
#include "octet/status.hpp"
#include "octet/types.hpp"

namespace octet::tool {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian and are copied as they are");

/// Allocates at multiples of 64 bytes: one cache line, and the widest vector load of any backend.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlign{64};

  LineAllocator() = default;
  template <class U>
  LineAllocator(const LineAllocator<U>&) {}  // NOLINT: implicit, as the standard's allocator requirements ask
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlign)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlign); }
  bool operator==(const LineAllocator&) const = default;
};

using AlignedBytes = std::vector<std::byte, LineAllocator<std::byte>>;

/// The most dimensions that a file may claim: what NumPy 2 and PyTorch hold. octet's own tensors have at
/// most 4.
inline constexpr std::size_t kMaxRank = 64;

/// A dense tensor in C order (last index fastest). bytes.size() == elements() * element_bytes(dtype).
/// A rank of 0 is one value; a size of 0 anywhere is an empty tensor. Booleans are bytes, 0 or 1.
/// DType::s4 is not held: packed codes are u8 with half the channels.
struct HostTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  AlignedBytes bytes;

  /// The product of the sizes; 1 for rank 0. The shape must be one that `total_bytes` accepts.
  std::int64_t elements() const;

  /// The values as T, whose size must be that of the dtype (raw 16-bit patterns for f16 and bf16, say).
  template <class T>
  std::span<const T> values() const {
    assert(bytes.size() == static_cast<std::size_t>(elements()) * sizeof(T));
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> values() {
    assert(bytes.size() == static_cast<std::size_t>(elements()) * sizeof(T));
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  bool operator==(const HostTensor&) const = default;
};

/// Bytes of one element; 0 for s4, which has no whole number of them.
std::int64_t element_bytes(DType dtype);

/// Bytes of a dense tensor, or nothing when a size is negative or the product of the sizes that are not zero
/// times the element size leaves 63 bits. (Zeros are left out so that strides do not overflow in an empty
/// tensor either.)
std::optional<std::int64_t> total_bytes(DType dtype, std::span<const std::int64_t> shape);

/// A tensor of zeros. Errors: invalid_argument for a shape that `total_bytes` refuses, more than kMaxRank
/// sizes or s4; out_of_memory.
Result<HostTensor> make_host_tensor(DType dtype, std::vector<std::int64_t> shape);

/// OK if the tensor can be written: a dtype that is held, a valid shape and as many bytes as it says. `name`
/// is for the message.
Status check_host_tensor(const HostTensor& tensor, std::string_view name);

/// The text in double quotes, fit for a message: what is not printable ASCII becomes \xHH (a hostile name
/// must not reach the terminal), and what is longer than 80 bytes is cut.
std::string in_quotes(std::string_view text);

/// Checks and, for 64-bit integers, narrows what was read from a file.
/// note: NumPy's default integer has 64 bits and octet's types stop at s32 (cu_seqlens); a value that does
/// not fit is refused by its index, never cut.
Status narrow_to_s32(std::span<const std::int64_t> from, std::span<std::int32_t> to, std::string_view name);

/// OK if every byte is 0 or 1. Any other byte read as a C++ bool is undefined behaviour.
Status check_booleans(std::span<const std::byte> bytes, std::string_view name);

}  // namespace octet::tool
