#include "io/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "io/file_handle.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

Status read_all(const FileHandle& file, const std::string& name, std::uint64_t offset,
                std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got =
        ::pread(file.fd(), to.data(), std::min(to.size(), kMaxTransfer), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return io_error(name + " could not be read at byte " + std::to_string(offset), "check its disk");
    if (got == 0) {
      return Status(Code::io, name + " ended at byte " + std::to_string(offset) +
                                  " while it was read; wait until nothing writes to it, and try again");
    }
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

ByteSource memory_source(std::span<const std::byte> bytes, std::string_view name) {
  auto read = [bytes](std::uint64_t offset, std::span<std::byte> to) {
    assert(offset <= bytes.size() && to.size() <= bytes.size() - offset);
    std::ranges::copy(bytes.subspan(static_cast<std::size_t>(offset), to.size()), to.begin());
    return Status{};
  };
  return {in_quotes(name), bytes.size(), read};
}

Result<ByteSource> file_source(const std::string& path) {
  const std::string name = in_quotes(path);
  if (path.find('\0') != std::string::npos)
    return Status(Code::io, name + " contains a NUL, which no file name may; use another name");
  // O_NONBLOCK: opening a pipe that nobody writes to would wait for ever, before fstat can refuse it.
  auto file = std::make_shared<FileHandle>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file->valid()) return io_error(name + " could not be opened", "check the name and its permissions");
  struct stat info {};
  if (::fstat(file->fd(), &info) != 0) return io_error(name + " could not be examined", "check its disk");
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::io, name + " is " + std::string(kind_of_file(info.st_mode)) +
                                ", but tensors are read from regular files; " + "name a file");
  }
  auto read = [file, name](std::uint64_t offset, std::span<std::byte> to) {
    return read_all(*file, name, offset, to);
  };
  return ByteSource{name, static_cast<std::uint64_t>(info.st_size), read};
}

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  assert(bytes.size() <= 8);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace octet::tool
