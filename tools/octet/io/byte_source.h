// Where a file reader gets its bytes: a file on disk or a span of memory, one code path for both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "octet/status.hpp"

namespace octet::tool {

/// A known number of bytes that can be read anywhere. Readers check every claim of a header against `size`
/// before they allocate, and read tensors straight into place, so a file is never in memory twice.
struct ByteSource {
  std::string name;        ///< of the file, ready for a message
  std::uint64_t size = 0;  ///< in bytes
  /// Fills `to` with the bytes from `offset` on; the range must lie within `size`. Error: io, the message
  /// names the file.
  std::function<Status(std::uint64_t offset, std::span<std::byte> to)> read;
};

/// Reads from memory, which must outlive the source. `name` stands for the file in messages.
ByteSource memory_source(std::span<const std::byte> bytes, std::string_view name);

/// Opens a regular file. Errors (io): it is missing, unreadable, or a directory, pipe or device. Never blocks
/// on a pipe.
Result<ByteSource> file_source(const std::string& path);

/// The little-endian unsigned integer in `bytes` (at most 8 of them).
std::uint64_t little_endian(std::span<const std::byte> bytes);

}  // namespace octet::tool
